//! Copies of the state in which VMs are elsewhere: what predictions are made on. They hold as far as decisions
//! read: claims, where VMs are, who waits. They are never applied to and never leave this crate.

use std::collections::BTreeMap;

use holm_model::feasible::{claim_of, parts_for};
use holm_model::node::Node;
use holm_model::parts::Parts;
use holm_model::vm::{Availability, Claim, Vm, VmStatus, WantPower};
use holm_model::{Epoch, NodeId, State, VmId};

use crate::policy::Policy;
use crate::queue;
use crate::steady::{is_held_back, without};

/// Changes the nodes that exist.
pub fn change(state: &mut State, nodes: &[NodeId], how: impl Fn(&mut Node)) {
    for node in nodes {
        if let Some(mut node) = state.nodes.get_mut(node) {
            how(&mut node);
        }
    }
}

/// Takes the VM from its host.
pub fn displace(state: &mut State, vm: &Vm) {
    let Some(claim) = &vm.claim else { return };
    if let Some(mut node) = state.nodes.get_mut(&claim.node) {
        node.end_claim(&claim.resources, &claim.parts);
    }
    if let Some(vms) = state.vms_by_node.get_mut(&claim.node) {
        vms.remove(&vm.id);
    }
    state.building.remove(&(claim.node, vm.id));
    let mut displaced = Vm { claim: None, status: VmStatus::Build, ..vm.clone() };
    displaced.forget_failed_builds();
    state.vms.insert(vm.id, displaced);
}

/// The VM is gone, and so is its claim.
pub fn forget(state: &mut State, id: VmId) {
    let Some(vm) = state.vms.get(&id).cloned() else { return };
    displace(state, &vm);
    state.vms.remove(&id);
}

/// What was asked of placed VMs has come about: those that are to fail over do, as far as their node has not said so
/// yet, those that a drain stopped run again, as they will when it is over, and those that are to leave their node have.
pub fn fulfil(state: &mut State) {
    let to_arm = |vm: &Vm| vm.spec.availability == Availability::Failover && !vm.is_failover_in_force();
    let changed = state.vms.values().filter(|vm| vm.claim.is_some());
    let changed = changed.filter(|vm| to_arm(vm) || vm.recovery.stopped_for.is_some());
    for mut vm in changed.cloned().collect::<Vec<Vm>>() {
        if vm.recovery.stopped_for.is_some() {
            vm.power.want = WantPower::On;
        }
        vm.claim.iter_mut().for_each(|claim| claim.availability = vm.spec.availability);
        state.vms.insert(vm.id, vm);
    }
    let leaving = state.vms.values().filter(|vm| vm.claim.is_some() && vm.recovery.vacate.is_some());
    for vm in leaving.cloned().collect::<Vec<Vm>>() {
        displace(state, &vm);
        let Some(record) = state.vms.get_mut(&vm.id) else { continue };
        record.recovery.move_to = record.recovery.vacate.take().and_then(|vacate| vacate.to);
        if vm.power.want == WantPower::On {
            state.waiting.insert(vm.id);
        } else {
            record.status = VmStatus::Shutoff;
        }
    }
}

/// Gives hosts to the waiting VMs that find one, as decisions to come would, and says which. Those that are held back
/// stay so.
pub fn settle(state: &mut State) -> BTreeMap<VmId, NodeId> {
    let held: Vec<VmId> = state
        .waiting
        .iter()
        .filter(|id| state.vms.get(*id).is_some_and(|vm| is_held_back(state, vm)))
        .copied()
        .collect();
    *state = without(state, held.iter());
    let policy = Policy::of(&state.scheduler);
    let mut placed = BTreeMap::new();
    loop {
        let before = state.clone();
        let placements = queue::run(&before, &policy, &Default::default()).placements;
        if placements.is_empty() {
            return placed;
        }
        for placement in placements {
            place(state, placement.vm, placement.node);
            placed.insert(placement.vm, placement.node);
        }
    }
}

/// Gives the VM a host.
pub fn place(state: &mut State, vm: VmId, node: NodeId) {
    let Some(mut vm) = state.vms.get(&vm).cloned() else { return };
    let resources = claim_of(&vm.spec);
    let mut parts = Parts::default();
    if let Some(mut record) = state.nodes.get_mut(&node) {
        parts = parts_for(&record, &record.room.parts, &vm).unwrap_or_default();
        record.add_claim(&resources, &parts);
    }
    let (epoch, availability) = (Epoch(state.revision), vm.spec.availability);
    vm.claim = Some(Claim { node, epoch, resources, parts, availability });
    vm.reserved = None;
    vm.batch = None;
    state.waiting.remove(&vm.id);
    state.building.insert((node, vm.id));
    state.vms_by_node.entry(node).or_default().insert(vm.id);
    state.vms.insert(vm.id, vm);
}
