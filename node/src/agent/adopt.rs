//! Says once, after a start, what was found running: an operator who restarts a daemon wants to read that
//! every guest went on, and what protection their shims lack. Nothing is looked at for it: the workers' first looks
//! are what it tells of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use holm_model::VmId;
use holm_vmm::hypervisor::{InstanceState, Observation};

/// Says what shims of this host lack.
pub fn tell_of_protection() {
    for what in holm_vmm::shim::missing_protection() {
        tracing::warn!(what, "shims of this node are less protected than they should be");
    }
}

/// How a VM was at the first look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    Running,
    Unresponsive,
    Off,
    Unknown,
    Absent,
}

impl From<&Observation> for Sight {
    fn from(observed: &Observation) -> Self {
        match observed {
            Observation::Unknown { .. } => Self::Unknown,
            Observation::Absent => Self::Absent,
            Observation::Known(here) => match here.state {
                InstanceState::Running | InstanceState::Paused => Self::Running,
                InstanceState::Unresponsive { .. } => Self::Unresponsive,
                InstanceState::Prepared | InstanceState::Ended(_) => Self::Off,
            },
        }
    }
}

/// The VMs that have a directory here when the daemon starts, until each was looked at.
#[derive(Debug)]
pub struct Adoption {
    began: Instant,
    /// None once it was told.
    open: Mutex<Option<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    found: Option<BTreeSet<VmId>>,
    seen: BTreeMap<VmId, Sight>,
}

impl Adoption {
    /// From here on.
    pub fn begin() -> Self {
        Self { began: Instant::now(), open: Mutex::new(Some(Open::default())) }
    }

    /// What was found; only the first finding counts.
    pub fn found(&self, vms: &[VmId]) {
        self.with(|open| {
            open.found.get_or_insert_with(|| vms.iter().copied().collect());
        });
    }

    /// A look at a VM; only the first counts.
    pub fn seen(&self, vm: VmId, observed: &Observation) {
        self.with(|open| {
            open.seen.entry(vm).or_insert_with(|| observed.into());
        });
    }

    fn with(&self, note: impl FnOnce(&mut Open)) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(now) = open.as_mut() else { return };
        note(now);
        if now.found.as_ref().is_some_and(|found| found.iter().all(|vm| now.seen.contains_key(vm))) {
            self.tell(now);
            *open = None;
        }
    }

    fn tell(&self, open: &Open) {
        let found = open.found.iter().flatten();
        let sights: Vec<_> = found.filter_map(|vm| open.seen.get(vm)).collect();
        let count = |wanted| sights.iter().filter(|sight| ***sight == wanted).count();
        tracing::info!(
            running = count(Sight::Running),
            unresponsive = count(Sight::Unresponsive),
            off = count(Sight::Off),
            unknown = count(Sight::Unknown),
            after_ms = self.began.elapsed().as_millis() as u64,
            "VMs of this host adopted"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(adoption: &Adoption) -> bool {
        adoption.open.lock().unwrap().is_some()
    }

    #[test]
    fn it_is_over_when_each_that_was_found_was_looked_at_whichever_came_first() {
        let [one, two, three] = [1, 2, 3].map(|n| VmId(uuid::Uuid::from_u128(n)));
        let adoption = Adoption::begin();
        adoption.seen(one, &Observation::Absent);
        assert!(is_open(&adoption), "nobody has said yet what there is");
        adoption.found(&[one, two]);
        adoption.seen(three, &Observation::Absent);
        adoption.seen(one, &Observation::Absent);
        assert!(is_open(&adoption));
        adoption.seen(two, &Observation::Unknown { reason: "it is being started".to_owned() });
        assert!(!is_open(&adoption));
        let none = Adoption::begin();
        none.found(&[]);
        assert!(!is_open(&none));
    }
}
