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

    /// The next fault.
    pub(super) fn draw(self, rng: &mut StdRng) -> FaultKind {
        match self {
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
