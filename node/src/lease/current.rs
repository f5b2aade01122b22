//! The lease in force, as the rest of the daemon sees it.

use std::path::{Path, PathBuf};

use holm_vmm::lease::{Lease, LeaseId};
use tokio::sync::watch;

use super::holder::InForce;
use crate::clock;

/// What a shim may take to notice, a busy host included.
const OVERDUE_NS: u64 = 3_000_000_000;

/// Written by the keeper, read by everybody else.
#[derive(Debug)]
pub struct Current {
    file: PathBuf,
    in_force: watch::Sender<Option<InForce>>,
}

/// What may be done under the lease, with a replica that has applied a certain log index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is none that lives.
    None,
    /// It lives, and the replica has not yet seen what the lease has: what runs may be bound to it, nothing
    /// starts (FENCING.md, rule 11).
    Behind(LeaseId),
    /// It lives, and so does the right to start.
    Ready(LeaseId),
}

impl Standing {
    /// The lease, if one lives.
    pub fn id(self) -> Option<LeaseId> {
        match self {
            Self::None => None,
            Self::Behind(id) | Self::Ready(id) => Some(id),
        }
    }

    pub fn is_ready(self) -> bool {
        matches!(self, Self::Ready(_))
    }
}

impl Current {
    /// Without a lease. `run_dir` lies on tmpfs wherever an operator did not choose otherwise.
    pub fn new(run_dir: &Path) -> Self {
        Self { file: run_dir.join("lease"), in_force: watch::Sender::new(None) }
    }

    /// Where the lease file lies.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The lease, if it lives.
    pub fn live(&self) -> Option<InForce> {
        self.in_force.borrow().filter(|lease| lease.lives(clock::boot_ns()))
    }

    /// What it allows where log index `applied` is the last one applied. The index must be read *before* this is
    /// called: it only rises, and so does what a lease asks for.
    pub fn standing(&self, applied: u64) -> Standing {
        match self.live() {
            None => Standing::None,
            Some(lease) if lease.read_index.is_some_and(|seen| seen <= applied) => Standing::Ready(lease.id),
            Some(lease) => Standing::Behind(lease.id),
        }
    }

    /// Whether lease `id` ended so long ago that a shim which works has long ended what depended on it. False
    /// while this process has not read the lease file.
    pub fn is_overdue(&self, id: LeaseId) -> bool {
        self.in_force.borrow().is_some_and(|lease| {
            // Another one began only after it had ended, and ids are the moments at which leases begin.
            let ended_ns = if lease.id == id { lease.deadline_ns } else { lease.id.0 };
            clock::boot_ns() > ended_ns.saturating_add(OVERDUE_NS)
        })
    }

    /// The lease `id` as a VM is bound to it.
    pub fn of(&self, id: LeaseId) -> Lease {
        Lease { file: self.file.clone(), id }
    }

    /// Wakes when another lease begins, or the one of an earlier process becomes this one's; not with renewals.
    pub fn watch(&self) -> watch::Receiver<Option<InForce>> {
        self.in_force.subscribe()
    }

    /// Replaces the lease; it stands in the lease file already.
    pub(super) fn put(&self, lease: InForce) {
        self.in_force.send_if_modified(|current| {
            let usable = |lease: &InForce| (lease.id, lease.read_index.is_some());
            let news = current.as_ref().map(usable) != Some(usable(&lease));
            *current = Some(lease);
            news
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_needs_a_lease_that_lives_and_a_replica_that_has_seen_as_much() {
        let current = Current::new(Path::new("/run/holm"));
        let (id, far) = (LeaseId(7), u64::MAX);
        assert_eq!(current.standing(100), Standing::None);
        for (read_index, deadline_ns, applied, expected) in [
            (Some(40), far, 40, Standing::Ready(id)),
            (Some(40), far, 39, Standing::Behind(id)),
            (None, far, 99, Standing::Behind(id)),
            (Some(40), 1, 99, Standing::None),
        ] {
            current.put(InForce { id, deadline_ns, read_index });
            assert_eq!(current.standing(applied), expected, "{read_index:?} {deadline_ns} {applied}");
        }
    }

    #[test]
    fn a_lease_is_overdue_a_while_after_its_end() {
        let current = Current::new(Path::new("/run/holm"));
        let now = clock::boot_ns();
        let (long_ago, just_now) = (now.saturating_sub(4_000_000_000).max(1), now);
        assert!(!current.is_overdue(LeaseId(7)), "nothing is known yet");
        for (case, in_force, id, expected) in [
            ("it lives", (7, u64::MAX), 7, false),
            ("it has just ended", (7, just_now), 7, false),
            ("it ended long ago", (7, long_ago), 7, true),
            ("another has just begun", (just_now, u64::MAX), 7, false),
            ("another began long ago", (long_ago, u64::MAX), 7, true),
        ] {
            let (in_force, deadline_ns) = in_force;
            current.put(InForce { id: LeaseId(in_force), deadline_ns, read_index: None });
            assert_eq!(current.is_overdue(LeaseId(id)), expected, "{case}");
        }
    }

    #[test]
    fn renewals_wake_nobody() {
        let current = Current::new(Path::new("/run/holm"));
        let mut watch = current.watch();
        let lease = InForce { id: LeaseId(7), deadline_ns: 10, read_index: None };
        for (lease, wakes) in [
            (lease, true),
            (InForce { read_index: Some(1), ..lease }, true),
            (InForce { read_index: Some(2), deadline_ns: 11, ..lease }, false),
            (InForce { id: LeaseId(8), read_index: Some(2), ..lease }, true),
        ] {
            current.put(lease);
            assert_eq!(watch.has_changed().expect("the sender lives"), wakes, "{lease:?}");
            watch.mark_unchanged();
        }
    }
}
