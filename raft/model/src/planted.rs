//! Bugs on demand. A suite that finds nothing proves little unless it finds what is known to be there: each
//! [`Plant`] breaks one promise, where `if planted(Plant::…)` says so. Without the feature `planted`, which only
//! the program `holmd-planted` asks for, [`planted`] is a constant `false` and nothing of this is compiled in.

/// One broken promise; [`Plant::SnapshotOften`] alone breaks none, it lets short runs reach snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Nothing is made durable.
    SkipFsync,
    /// Log entries are stored unsplit, and blob files are trusted.
    WholeValues,
    /// A store that is missing is made anew under the old node id.
    RecreateStore,
    /// The idempotency window is not part of what a snapshot restores.
    ForgetWindow,
    /// A snapshot claims an earlier last entry than its state holds.
    AppliedNotAtomic,
    /// Events get other revisions when a snapshot is restored.
    RenumberEvents,
    /// A snapshot every few entries.
    SnapshotOften,
    /// Reads answer from the replica that was asked.
    LocalRead,
    /// A leader answers reads without asking a quorum whether it still is one.
    ReadWithoutQuorum,
    /// A restarted leader goes on at once, before its `BeginLeadership` is applied.
    NoBeginLeadership,
    /// A write whose outcome is unknown is answered as refused.
    UnknownAsRefused,
    /// What apply writes depends on the process.
    ImpureApply,
    /// A repeated idempotency key acts again.
    NoDedup,
    /// A placement is claimed only when the node reports the VM.
    ClaimLater,
    /// A claim that ends stays allocated.
    LeakClaim,
    /// A late report brings back a VM that is being deleted.
    ResurrectDelete,
    /// Quotas are checked by the leader as it proposes, not by apply.
    QuotaAtLeader,
    /// The leader grants leases without asking a quorum whether it still leads.
    LeaseWithoutQuorum,
    /// A node may be granted a lease while its fence is on its way, which takes some time.
    GrantRacingFence,
    /// A new leader fences at once, without waiting for the leases of earlier ones.
    NoWaitAfterElection,
    /// A node that is down counts as fenced: its VMs are placed elsewhere while its leases may live.
    DownIsFenced,
    /// The agent starts a failover VM whether or not there is a lease.
    StartWithoutLease,
    /// Entries are stamped by the wall clock, however that was set.
    StampsByWallClock,
    /// The agent obeys a replica that has not seen what runs here.
    TrustLaggingReplica,
    /// The agent begins with ending what it finds running.
    RestartTouchesVms,
    /// Only the daemon ends a VM with its lease, its shim does not.
    ShimIgnoresLease,
    /// A lease file counts in whatever boot it was written.
    LeaseOfAnyBoot,
    /// The parent-death signal of a VMM is set before its user, which clears it.
    DeathSignalFirst,
    /// A placement that could not be built is given back first and marked released some time after.
    MarkAfterProposal,
    /// A VM is started under an epoch that nothing was placed at.
    WrongEpoch,
    /// Ids of VMs are drawn from a handful.
    FewIds,
}

impl Plant {
    /// All, with the name each goes by.
    pub const NAMES: &[(Self, &str)] = &[
        (Self::SkipFsync, "skip-fsync"),
        (Self::WholeValues, "whole-values"),
        (Self::RecreateStore, "recreate-store"),
        (Self::ForgetWindow, "forget-window"),
        (Self::AppliedNotAtomic, "applied-not-atomic"),
        (Self::RenumberEvents, "renumber-events"),
        (Self::SnapshotOften, "snapshot-often"),
        (Self::LocalRead, "local-read"),
        (Self::ReadWithoutQuorum, "read-without-quorum"),
        (Self::NoBeginLeadership, "no-begin-leadership"),
        (Self::UnknownAsRefused, "unknown-as-refused"),
        (Self::ImpureApply, "impure-apply"),
        (Self::NoDedup, "no-dedup"),
        (Self::ClaimLater, "claim-later"),
        (Self::LeakClaim, "leak-claim"),
        (Self::ResurrectDelete, "resurrect-delete"),
        (Self::QuotaAtLeader, "quota-at-leader"),
        (Self::LeaseWithoutQuorum, "lease-without-quorum"),
        (Self::GrantRacingFence, "grant-racing-fence"),
        (Self::NoWaitAfterElection, "no-wait-after-election"),
        (Self::DownIsFenced, "down-is-fenced"),
        (Self::StartWithoutLease, "start-without-lease"),
        (Self::StampsByWallClock, "stamps-by-wall-clock"),
        (Self::TrustLaggingReplica, "trust-lagging-replica"),
        (Self::RestartTouchesVms, "restart-touches-vms"),
        (Self::ShimIgnoresLease, "shim-ignores-lease"),
        (Self::LeaseOfAnyBoot, "lease-of-any-boot"),
        (Self::DeathSignalFirst, "death-signal-first"),
        (Self::MarkAfterProposal, "mark-after-proposal"),
        (Self::WrongEpoch, "wrong-epoch"),
        (Self::FewIds, "few-ids"),
    ];

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(plant, _)| *plant)
    }
}

#[cfg(not(feature = "planted"))]
mod chosen {
    /// Plants the bug of this name: not in a build without the feature.
    ///
    /// # Errors
    /// Always.
    pub fn plant_named(name: &str) -> Result<(), String> {
        Err(format!("{name} can be planted only in a build with --features planted"))
    }

    /// Whether this promise is to be broken: never, in a build without the feature.
    pub const fn planted(_: super::Plant) -> bool {
        false
    }

    /// By how much wall clocks are to be wrong, in milliseconds: not at all.
    pub const fn wall_offset_ms() -> i64 {
        0
    }

    /// What this host's clock shows, in nanoseconds since boot, when the kernel's shows this: the same.
    pub const fn host_clock_ns(kernel_ns: u64) -> u64 {
        kernel_ns
    }

    /// What the kernel's clock shows when this host's shows this: the same.
    pub const fn kernel_clock_ns(host_ns: u64) -> u64 {
        host_ns
    }
}

#[cfg(feature = "planted")]
mod chosen {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::Plant;

    static CHOSEN: OnceLock<Vec<Plant>> = OnceLock::new();
    static WALL_OFFSET_MS: AtomicI64 = AtomicI64::new(0);
    static RATE: OnceLock<Rate> = OnceLock::new();

    const MILLION: i128 = 1_000_000;

    /// A clock that showed what the kernel's did at one moment, and goes faster since, or slower.
    #[derive(Clone, Copy, Debug)]
    pub struct Rate {
        pub from_ns: u64,
        /// By how many millionths faster; above -1,000,000.
        pub ppm: i64,
    }

    impl Rate {
        pub(super) fn host_ns(self, kernel_ns: u64) -> u64 {
            self.scaled(kernel_ns, MILLION + i128::from(self.ppm), MILLION)
        }

        pub(super) fn kernel_ns(self, host_ns: u64) -> u64 {
            self.scaled(host_ns, MILLION, MILLION + i128::from(self.ppm))
        }

        fn scaled(self, at_ns: u64, times: i128, by: i128) -> u64 {
            let from = i128::from(self.from_ns);
            let passed = (i128::from(at_ns) - from) * times / by.max(1);
            u64::try_from(from + passed).unwrap_or(0)
        }
    }

    /// Fixes what is planted in this process; the first call counts. Who calls reads the environment, not this crate.
    pub fn plant(chosen: Vec<Plant>) {
        let _ = CHOSEN.set(chosen);
    }

    /// Plants the bug of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn plant_named(name: &str) -> Result<(), String> {
        let chosen = Plant::named(name).ok_or_else(|| format!("there is no plant {name:?}"))?;
        plant(vec![chosen]);
        Ok(())
    }

    /// Whether this promise is to be broken.
    pub fn planted(plant: Plant) -> bool {
        CHOSEN.get().is_some_and(|chosen| chosen.contains(&plant))
    }

    /// From here on wall clocks of this process are wrong by so much.
    pub fn set_wall_offset_ms(by_ms: i64) {
        WALL_OFFSET_MS.store(by_ms, Ordering::Relaxed);
    }

    /// By how much wall clocks are to be wrong, in milliseconds.
    pub fn wall_offset_ms() -> i64 {
        WALL_OFFSET_MS.load(Ordering::Relaxed)
    }

    /// Fixes how fast this host's clock goes; the first call counts, and every process of a host is told the same.
    pub fn set_clock_rate(rate: Rate) {
        let _ = RATE.set(rate);
    }

    /// What this host's clock shows, in nanoseconds since boot, when the kernel's shows this.
    pub fn host_clock_ns(kernel_ns: u64) -> u64 {
        RATE.get().map_or(kernel_ns, |rate| rate.host_ns(kernel_ns))
    }

    /// What the kernel's clock shows when this host's shows this.
    pub fn kernel_clock_ns(host_ns: u64) -> u64 {
        RATE.get().map_or(host_ns, |rate| rate.kernel_ns(host_ns))
    }
}

pub use chosen::*;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plant_is_found_by_its_name_and_nothing_is_planted_unasked() {
        for (plant, name) in Plant::NAMES {
            assert_eq!(Plant::named(name), Some(*plant));
            assert!(!planted(*plant), "{name}");
        }
        assert_eq!(Plant::named("nonsense"), None);
    }

    #[cfg(feature = "planted")]
    #[test]
    fn a_clock_that_goes_slower_shows_less_and_is_read_back() {
        let rate = Rate { from_ns: 1_000, ppm: -400_000 };
        assert_eq!((rate.host_ns(1_000), rate.host_ns(2_000)), (1_000, 1_600));
        assert_eq!(rate.kernel_ns(1_600), 2_000);
        assert_eq!(Rate { from_ns: 1_000, ppm: 50_000 }.host_ns(3_000), 3_100);
    }
}
