//! VMs found on this host that its cluster never placed, such as those of a data directory that came from
//! another cluster: they are named to the operator, and nothing is done about them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holm_model::node::ORPHANS_MAX;
use holm_model::{ClusterId, VmId};
use holm_vmm::hypervisor::Observation;

use super::plan::{alive, is_foreign};

/// Those found, with what is known of each.
#[derive(Debug, Default)]
pub struct Orphans {
    found: Mutex<BTreeMap<VmId, String>>,
}

impl Orphans {
    /// Takes down what was seen of `vm`. True when that is news.
    pub fn note(&self, cluster: ClusterId, vm: VmId, observed: &Observation) -> bool {
        // What cannot be told says nothing new.
        if matches!(observed, Observation::Unknown { .. }) {
            return false;
        }
        let mut found = self.found();
        match words(cluster, observed) {
            Some(words) => {
                let news = !found.contains_key(&vm);
                found.insert(vm, words);
                news
            }
            None => {
                found.remove(&vm);
                false
            }
        }
    }

    /// For the node's report, no more than it may hold.
    pub fn to_report(&self) -> BTreeMap<VmId, String> {
        self.found().iter().take(ORPHANS_MAX).map(|(vm, words)| (*vm, words.clone())).collect()
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<VmId, String>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// None for what is no orphan.
fn words(cluster: ClusterId, observed: &Observation) -> Option<String> {
    let Observation::Known(instance) = observed else { return None };
    let placed_by = instance.cluster.filter(|_| is_foreign(cluster, instance))?;
    let state = if alive(&instance.state) { "runs" } else { "is off" };
    Some(format!("placed by cluster {placed_by} at its epoch {}; it {state}", instance.epoch))
}

#[cfg(test)]
mod tests {
    use holm_model::{Epoch, Revision};
    use holm_vmm::hypervisor::{Instance, InstanceState};
    use uuid::Uuid;

    use super::*;

    fn cluster(n: u128) -> ClusterId {
        ClusterId(Uuid::from_u128(n))
    }

    fn running(placed_by: Option<ClusterId>) -> Observation {
        Observation::Known(Instance {
            epoch: Epoch(Revision(7)),
            released: false,
            cluster: placed_by,
            bound: false,
            run: 1,
            boot_id: None,
            armed: None,
            can_arm: true,
            state: InstanceState::Running,
        })
    }

    #[test]
    fn only_what_another_cluster_placed_is_an_orphan() {
        let orphans = Orphans::default();
        let vm = VmId(Uuid::from_u128(1));
        for observed in [running(None), running(Some(cluster(1))), Observation::Absent] {
            assert!(!orphans.note(cluster(1), vm, &observed), "{observed:?}");
        }
        assert!(orphans.to_report().is_empty());
        assert!(orphans.note(cluster(1), vm, &running(Some(cluster(2)))));
        assert!(!orphans.note(cluster(1), vm, &running(Some(cluster(2)))), "told once");
        let told = orphans.to_report();
        assert!(told[&vm].ends_with("at its epoch 7; it runs"), "{told:?}");
        orphans.note(cluster(1), vm, &Observation::Absent);
        assert!(orphans.to_report().is_empty(), "somebody removed it");
    }

    #[test]
    fn a_report_names_no_more_than_it_may_hold() {
        let orphans = Orphans::default();
        for n in 0..100 {
            orphans.note(cluster(1), VmId(Uuid::from_u128(n)), &running(Some(cluster(2))));
        }
        assert_eq!(orphans.to_report().len(), 64);
    }
}
