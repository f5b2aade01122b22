//! What would become of the VMs on some nodes if those nodes were lost or drained: where each would fit,
//! or why nowhere. Decided on a copy of the state in which the nodes are gone and their VMs wait, by the
//! same filters and weighers and in the order of the queue. VMs that wait already are not counted in.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use holm_model::node::Node;
use holm_model::vm::{HostReason, Vm, VmStatus};
use holm_model::{NodeId, State, VmId};
use serde::{Deserialize, Serialize};

use crate::policy::Policy;
use crate::select::Batch;

/// Every VM of the nodes in question, except those that are being deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhatIf {
    /// VMs that fit elsewhere, in the order they would be placed.
    pub moves: Vec<Move>,
    /// VMs that fit nowhere.
    pub stuck: Vec<Stuck>,
}

/// A VM and its next host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub vm: VmId,
    pub name: String,
    pub from: NodeId,
    pub to: NodeId,
}

/// A VM without a next host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stuck {
    pub vm: VmId,
    pub name: String,
    pub from: NodeId,
    /// Why each node refuses it once those before it have moved.
    pub refusals: Vec<HostReason>,
}

/// What would become of the VMs on the nodes of `lose` and `drain`.
pub fn what_if(state: &State, lose: &[NodeId], drain: &[NodeId]) -> WhatIf {
    let mut after = state.clone();
    change(&mut after, lose, |node| node.up = false);
    change(&mut after, drain, |node| {
        node.enabled = false;
        node.disabled_reason = Some("it is to be drained".to_owned());
    });
    let nodes: BTreeSet<NodeId> = lose.iter().chain(drain).copied().collect();
    let mut displaced: Vec<&Vm> = nodes.iter().flat_map(|node| state.vms_on(*node)).collect();
    displaced.retain(|vm| vm.status != VmStatus::Deleting);
    displaced.sort_by_key(|vm| (Reverse(vm.spec.scheduling.priority), vm.created_at, vm.id));
    displaced.iter().for_each(|vm| displace(&mut after, vm));

    let policy = Policy::of(&after.scheduler);
    let mut batch = Batch::new(&after, &policy);
    let mut answer = WhatIf::default();
    for vm in displaced {
        let (Some(claim), Some(record)) = (&vm.claim, after.vms.get(&vm.id)) else { continue };
        let (name, from) = (vm.name.clone(), claim.node);
        match batch.place(record) {
            Some(chosen) => answer.moves.push(Move { vm: vm.id, name, from, to: chosen.node }),
            None => answer.stuck.push(Stuck { vm: vm.id, name, from, refusals: batch.refusals(record) }),
        }
    }
    answer
}

fn change(state: &mut State, nodes: &[NodeId], how: impl Fn(&mut Node)) {
    for node in nodes {
        if let Some(node) = state.nodes.get_mut(node) {
            how(node);
        }
    }
}

/// The VM without its host.
fn displace(state: &mut State, vm: &Vm) {
    let Some(claim) = &vm.claim else { return };
    if let Some(node) = state.nodes.get_mut(&claim.node) {
        node.allocated.sub(&claim.resources);
    }
    if let Some(vms) = state.vms_by_node.get_mut(&claim.node) {
        vms.remove(&vm.id);
    }
    state.building.remove(&(claim.node, vm.id));
    state.vms.insert(vm.id, Vm { claim: None, status: VmStatus::Build, ..vm.clone() });
}
