//! What must be true after every event, and what must be so in the end.

use holm_model::vm::{Vm, VmStatus, WantPower};
use holm_model::{Epoch, ResourceClass, VmId, invariant};
use holm_node::agent::plan::needs_lease;

use super::event::Ix;
use super::host;
use super::node::id;
use super::sim::{NODES, Sim, short};
use super::start::QUOTA_VCPUS;

/// A full comparison of two states at one index, every so many indexes: it reads all of both.
const COMPARED_EVERY: u64 = 8;

impl Sim {
    /// `node` has applied one more entry: its state is what every replica comes to there, and a good one.
    pub fn compare(&mut self, node: Ix) {
        let applied = self.daemons[node].applied;
        let at = applied as usize;
        if self.log.states.len() == at {
            self.log.states.push(self.daemons[node].state.clone());
            self.check_state();
        } else if applied.is_multiple_of(COMPARED_EVERY) && self.log.states[at] != self.daemons[node].state {
            self.violate(format!("n{} comes to another state at index {applied}", node + 1));
        }
    }

    fn check_state(&mut self) {
        let state = self.log.newest();
        let broken = invariant::check(state).err().or_else(|| {
            let over = state.nodes.keys().find_map(|node| {
                let inventory = state.inventory_of(*node);
                let allocated = &state.nodes[node].allocated;
                let over = inventory.iter().find(|(class, has)| allocated.get(class) > has.capacity());
                over.map(|(class, _)| format!("{} of node {node} is over its capacity", class.name()))
            });
            let used = state.usage.values().map(|usage| usage.get(&ResourceClass::Vcpu)).max();
            let quota = used.filter(|used| *used > QUOTA_VCPUS);
            over.or_else(|| quota.map(|used| format!("{used} vCPUs, the quota is {QUOTA_VCPUS}")))
        });
        if let Some(broken) = broken {
            self.violate(broken);
        }
        self.check_deleted();
    }

    /// What was deleted never comes back.
    fn check_deleted(&mut self) {
        let state = self.log.newest();
        for (vm, intent) in &mut self.client.vms {
            let there = state.vms.contains_key(vm);
            if !there && intent.seen {
                intent.gone = true;
            }
            intent.seen |= there;
        }
        let back = self.client.vms.iter().find(|(vm, intent)| intent.gone && state.vms.contains_key(*vm));
        if let Some((vm, _)) = back {
            let vm = short(*vm);
            self.violate(format!("VM {vm} was gone and is there again"));
        }
    }

    /// A run begins only while its claim stands, as the newest state has it.
    pub fn check_start(&mut self, node: Ix, vm: VmId, epoch: Epoch) {
        let claim = self.claim_of(vm);
        let committed = self.log.committed() as usize == self.log.states.len() - 1;
        if committed && claim != Some((node, epoch)) {
            self.violate(format!("n{} starts VM {} at epoch {epoch}, which has ended", node + 1, short(vm)));
        }
    }

    /// The agent ends a run: not one of a pinned VM that is to go on, as the newest state has it.
    pub fn check_stop(&mut self, node: Ix, vm: VmId, epoch: Epoch, run: u64) {
        let goes_on = |record: &&Vm| {
            record.power.want == WantPower::On
                && record.power.run == run
                && record.status != VmStatus::Deleting
                && record.recovery.vacate.is_none()
                && !needs_lease(record)
        };
        let wanted = self.log.newest().vms.get(&vm).is_some_and(|record| goes_on(&record));
        if wanted && self.claim_of(vm) == Some((node, epoch)) {
            self.violate(format!("n{} stops VM {}, which is to run on", node + 1, short(vm)));
        }
    }

    fn claim_of(&self, vm: VmId) -> Option<(Ix, Epoch)> {
        let claim = self.log.newest().vms.get(&vm)?.claim.as_ref()?;
        Some((claim.node.0 as usize - 1, claim.epoch))
    }

    /// The directory of `vm` is removed: its claim must have ended.
    pub fn forget(&mut self, node: Ix, vm: VmId) {
        let Some(dir) = self.hosts[node].dirs.get(&vm) else { return };
        let (epoch, alive) = (dir.epoch, host::alive(&dir.state) || dir.pending.is_some());
        if alive {
            return;
        }
        if self.claim_of(vm) == Some((node, epoch)) {
            self.violate(format!("n{} removes the disk of VM {}, whose claim stands", node + 1, short(vm)));
        }
        self.hosts[node].dirs.remove(&vm);
    }

    /// What is not as it should be, once there are no faults any more; none if all is.
    pub fn unsettled(&self) -> Option<String> {
        let state = self.log.newest();
        for node in 0..NODES {
            if self.daemons[node].applied < self.log.committed() {
                return Some(format!("n{} lags", node + 1));
            }
            let record = &state.nodes[&id(node)];
            if !record.up || record.fence.is_some() {
                let fence = record.fence.as_ref().map(|fence| fence.revision);
                return Some(format!("n{}: up {}, fence {fence:?}", node + 1, record.up));
            }
            if !record.enabled || record.drain.is_some() || record.maintenance.is_some() {
                return Some(format!("n{} is cordoned", node + 1));
            }
        }
        if state.freeze.is_some() {
            return Some("the cluster is frozen".to_owned());
        }
        for (vm, intent) in &self.client.vms {
            let record = state.vms.get(vm);
            let name = short(*vm);
            if intent.created && !intent.deleting && record.is_none() {
                return Some(format!("VM {name} was acknowledged and is not there"));
            }
            if intent.deleted && record.is_some() {
                return Some(format!("VM {name} is still there, its delete was acknowledged"));
            }
            if let Some(why) = record.and_then(|record| self.unsettled_vm(record)) {
                return Some(format!("VM {name}: {why}"));
            }
        }
        for (node, host) in self.hosts.iter().enumerate() {
            let stray = host.dirs.keys().find(|vm| self.claim_of(**vm).map(|claim| claim.0) != Some(node));
            if let Some(vm) = stray {
                return Some(format!("n{} still has something of VM {}", node + 1, short(*vm)));
            }
        }
        None
    }

    fn unsettled_vm(&self, vm: &Vm) -> Option<String> {
        let running: Vec<Ix> = (0..NODES).filter(|node| self.hosts[*node].runs(vm.id, self.now)).collect();
        let claimed = vm.claim.as_ref().map(|claim| claim.node.0 as usize - 1);
        let as_asked = match vm.status {
            VmStatus::Active => {
                vm.power.want == WantPower::On && running.len() == 1 && running.first().copied() == claimed
            }
            VmStatus::Shutoff => running.is_empty(),
            VmStatus::Error => running.is_empty() && vm.fault.is_some(),
            // It fits nowhere, and says why.
            VmStatus::Build => claimed.is_none() && !vm.refusals.is_empty(),
            _ => false,
        };
        let moving = vm.task_state.is_some() && vm.status != VmStatus::Build;
        let what = || {
            format!("{:?}/{:?}, wanted {:?}, runs on {running:?}", vm.status, vm.task_state, vm.power.want)
        };
        (!as_asked || moving).then(what)
    }
}
