//! Which faults a run is to meet.

use clap::ValueEnum;
use rand::Rng;
use rand::rngs::StdRng;

use crate::history::FaultKind;

/// What a run's nemesis does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Nemesis {
    /// Kills a random daemon, and starts it once the others have gone on without it.
    Kill,
    /// Kills the leader and starts it again at once.
    LeaderRestart,
    /// Cuts a minority off from the others.
    PartitionHalves,
    /// Cuts the leader off from the others.
    PartitionLeader,
    /// One node hears nobody, or is heard by nobody; the other way stays open.
    PartitionOneWay,
    /// Every node reaches a majority, no two the same one.
    PartitionRing,
    /// One node is cut off, loses power, and boots without a quorum; takes over a minute a round.
    PartitionPower,
    /// Stops a daemon where it is and lets it go on later.
    Pause,
    /// Every way loses a quarter of its packets.
    Loss,
    /// Every node can send little, and late.
    Slow,
    /// One node loses power.
    PowerOne,
    /// Most nodes lose power at one moment.
    PowerMost,
    /// All nodes lose power at one moment and come back in random order.
    PowerAll,
    /// Any of these that are short, and a daemon killed while it is cut off.
    Mix,
    /// Two halves and one node that reaches both; needs five nodes to matter.
    PartitionBridge,
    /// Ends every process of a host.
    KillHost,
    /// Ends the shim of some VM.
    KillShim,
    /// Ends the VMM of some VM.
    KillVmm,
    /// The VMM of some VM stands still.
    PauseVmm,
    /// Fills a node's disk.
    DiskFull,
    /// A node's disk stands still for moments, again and again.
    DiskSlow,
    /// A node's disk stands still for seconds.
    DiskHung,
    /// Bytes of a node's log change while it is off.
    Damage,
    /// The end of a node's log is gone when it comes back.
    Truncate,
    /// A node leaves the cluster for ever, and a new one takes its place.
    Replace,
    /// Stops and starts every daemon in turn.
    Rolling,
    /// Sets the leader's wall clock, by minutes or hours; on daemons whose clock can be set.
    ClockJump,
    /// A daemon stands still for about as long as a lease lasts, shorter or longer.
    LeasePause,
    /// The leader is cut off for longer than a lease.
    LeasePartition,
    /// One node hears nobody, or is heard by nobody, for longer than a lease.
    LeaseOneWay,
    /// A daemon is dead for longer than a lease.
    LeaseKill,
    /// A host without power for longer than a lease.
    LeasePower,
    /// A host is cut off, loses power, and boots without a quorum, all that for longer than a lease.
    LeasePartitionPower,
    /// Every process of a host is dead for longer than a lease.
    LeaseKillHost,
    /// A daemon stands still for longer than a lease, goes on for moments, and stands still again.
    LeaseFlap,
    /// The leader is cut off for longer than a lease, and no two clocks go at the same rate, as far as is allowed for.
    ClockRates,
    /// The same with clocks that are further apart than is allowed for: VMs then run twice, which must be seen.
    ClockRatesBeyond,
    /// Any fault that makes VMs fail over, and any that must not.
    Failover,
    /// Clients reach some nodes, or hear them, no longer; the nodes reach each other.
    PartitionClients,
    /// Every process of a host stands still, its VMs too, and goes on later.
    PauseHost,
}

/// How long a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Until so many faults were healed.
    Rounds(u64),
    /// Until the fault that is under way after so many seconds was healed.
    Seconds(u64),
}

impl Nemesis {
    /// As the command line takes it.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether every fault lasts so long that VMs must fail over.
    pub fn outlasts_leases(self) -> bool {
        matches!(
            self,
            Self::LeasePartition
                | Self::LeaseOneWay
                | Self::LeaseKill
                | Self::LeasePower
                | Self::LeasePartitionPower
                | Self::LeaseKillHost
                | Self::LeaseFlap
                | Self::ClockRates
                | Self::ClockRatesBeyond
        )
    }

    /// Whether daemons must be ones whose clocks can be made wrong.
    pub fn sets_clocks(self) -> bool {
        self == Self::ClockJump || self.clock_ppm(0) != 0
    }

    /// By how many millionths the clock of node `at` goes faster than it should. A lease of 8.4 seconds and its margin
    /// of 2 allow for a fifth, in which a VMM has to die, too. The first node leads at first, and is cut off: its
    /// lease is the one that lasts too long.
    pub fn clock_ppm(self, at: usize) -> i64 {
        match self {
            Self::ClockRates => [-50_000, 50_000, 20_000][at % 3],
            Self::ClockRatesBeyond => [-450_000, 50_000, 0][at % 3],
            _ => 0,
        }
    }

    /// Whether clients come over the network that has faults.
    pub fn moves_clients(self) -> bool {
        self == Self::PartitionClients
    }

    /// How long faults are held, in milliseconds, where it is not as usual. Leases last 8.4 seconds in tests of
    /// failover, and nodes are fenced two seconds later.
    pub(super) fn hold(self) -> Option<std::ops::Range<u64>> {
        match self {
            Self::LeasePause | Self::Failover => Some(5_000..20_000),
            // Until its node was fenced, and hardly longer.
            Self::LeaseFlap => Some(13_500..15_500),
            of if of.outlasts_leases() => Some(16_000..22_000),
            _ => None,
        }
    }

    /// The next fault.
    pub(super) fn draw(self, rng: &mut StdRng) -> FaultKind {
        match self {
            Self::PartitionBridge => FaultKind::PartitionBridge,
            Self::KillHost | Self::LeaseKillHost => FaultKind::KillHost,
            Self::KillShim => FaultKind::KillShim,
            Self::KillVmm => FaultKind::KillVmm,
            Self::PauseVmm => FaultKind::PauseVmm,
            Self::DiskFull => FaultKind::DiskFull,
            Self::DiskSlow => FaultKind::DiskSlow,
            Self::DiskHung => FaultKind::DiskHung,
            Self::Damage => FaultKind::Damage,
            Self::Truncate => FaultKind::Truncate,
            Self::Replace => FaultKind::Replace,
            Self::Rolling => FaultKind::Rolling,
            Self::ClockJump => FaultKind::ClockJump,
            Self::LeasePause => FaultKind::Pause,
            Self::LeasePartition | Self::ClockRates | Self::ClockRatesBeyond => FaultKind::PartitionLeader,
            Self::LeaseFlap => FaultKind::PauseAgain,
            Self::PartitionClients => FaultKind::PartitionClients,
            Self::PauseHost => FaultKind::PauseHost,
            Self::LeaseOneWay => FaultKind::PartitionOneWay,
            Self::LeaseKill => FaultKind::Kill,
            Self::LeasePower => FaultKind::PowerOne,
            Self::LeasePartitionPower => FaultKind::PartitionPower,
            Self::Failover => {
                const ALL: [FaultKind; 11] = [
                    FaultKind::Pause,
                    FaultKind::Kill,
                    FaultKind::Restart,
                    FaultKind::KillHost,
                    FaultKind::KillShim,
                    FaultKind::KillVmm,
                    FaultKind::PauseVmm,
                    FaultKind::PartitionLeader,
                    FaultKind::PartitionHalves,
                    FaultKind::PartitionOneWay,
                    FaultKind::PowerOne,
                ];
                ALL[rng.random_range(0..ALL.len())]
            }
            Self::Kill => FaultKind::Kill,
            Self::LeaderRestart => FaultKind::Restart,
            Self::PartitionHalves => FaultKind::PartitionHalves,
            Self::PartitionLeader => FaultKind::PartitionLeader,
            Self::PartitionOneWay => FaultKind::PartitionOneWay,
            Self::PartitionRing => FaultKind::PartitionRing,
            Self::PartitionPower => FaultKind::PartitionPower,
            Self::PowerMost => FaultKind::PowerMost,
            Self::Pause => FaultKind::Pause,
            Self::Loss => FaultKind::Loss,
            Self::Slow => FaultKind::Slow,
            Self::PowerOne => FaultKind::PowerOne,
            Self::PowerAll => FaultKind::PowerAll,
            Self::Mix => {
                const ALL: [FaultKind; 13] = [
                    FaultKind::Kill,
                    FaultKind::Restart,
                    FaultKind::PartitionHalves,
                    FaultKind::PartitionLeader,
                    FaultKind::PartitionOneWay,
                    FaultKind::PartitionRing,
                    FaultKind::PartitionKill,
                    FaultKind::Pause,
                    FaultKind::Loss,
                    FaultKind::Slow,
                    FaultKind::PowerOne,
                    FaultKind::PowerMost,
                    FaultKind::PowerAll,
                ];
                ALL[rng.random_range(0..ALL.len())]
            }
        }
    }
}
