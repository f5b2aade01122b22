//! What would become of the VMs on some nodes if those nodes were lost or drained: where each would fit,
//! or why nowhere. Decided on a copy of the state in which the nodes are gone and their VMs wait, by the
//! same filters and weighers and in the order of the queue.
//!
//! VMs that fail over, and those that wait already, go first: they move by themselves. Pinned VMs stay with
//! their node until somebody moves them; what is said of them holds for that moment. Those that are being deleted go
//! nowhere; those a fence takes are gone with it, and hold no group to the lost node.

use std::collections::BTreeSet;

use holm_model::vm::{Availability, HostReason, Vm, VmStatus, WantPower};
use holm_model::{NodeId, State, VmId};
use serde::{Deserialize, Serialize};

use crate::advice::{Advice, Gathered};
use crate::imagine::{change, displace, forget, place};
use crate::policy::Policy;
use crate::queue;
use crate::select::Batch;

/// Every VM of the nodes in question, except those that are being deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhatIf {
    /// VMs that fit elsewhere, in the order they would be placed.
    pub moves: Vec<Move>,
    /// VMs that fit nowhere.
    pub stuck: Vec<Stuck>,
    /// VMs that wait already, in the order of the queue.
    pub waiting: Vec<Waiting>,
    /// What to do next about the other nodes that refuse those of `stuck`, of which the first [`ADVISED_MAX`] are asked.
    #[serde(default)]
    pub advice: Vec<Advice>,
}

/// What helps one VM mostly helps those like it.
pub const ADVISED_MAX: usize = 100;

/// A VM and its next host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub vm: VmId,
    pub name: String,
    pub from: NodeId,
    pub to: NodeId,
    /// Nobody has to ask for it: the VM fails over.
    pub by_itself: bool,
}

/// A VM without a next host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stuck {
    pub vm: VmId,
    pub name: String,
    pub from: NodeId,
    /// Why each node refuses it once those before it have moved.
    pub refusals: Vec<HostReason>,
    pub by_itself: bool,
}

/// A VM that waits for a host, and the one it would get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub vm: VmId,
    pub name: String,
    pub to: Option<NodeId>,
}

/// What would become of the VMs on the nodes of `lose` and `drain`.
pub fn what_if(state: &State, lose: &[NodeId], drain: &[NodeId]) -> WhatIf {
    let mut foreseen = Foreseen::without(state, lose, drain);
    foreseen.advice = Some(Gathered::default());
    let nodes = foreseen.nodes.clone();
    let displaced = || nodes.iter().flat_map(|node| state.vms_on(*node));
    let waiting = state.waiting.iter().filter_map(|id| state.vms.get(id));
    foreseen.go_on(displaced().filter(|vm| moves_by_itself(vm)).chain(waiting).collect());
    foreseen.go_on(displaced().filter(|vm| !moves_by_itself(vm)).collect());
    let advice = foreseen.advice.take().unwrap_or_default().told(state);
    WhatIf { advice, ..foreseen.answer }
}

/// What becomes of a node's failover VMs, and of those that wait, when it is lost.
pub(crate) fn failover_from(state: &State, node: NodeId) -> WhatIf {
    let mut foreseen = Foreseen::without(state, &[node], &[]);
    let waiting = state.waiting.iter().filter_map(|id| state.vms.get(id));
    foreseen.go_on(state.vms_on(node).filter(|vm| moves_by_itself(vm)).chain(waiting).collect());
    foreseen.answer
}

/// Whether a fence of its node would free the VM: it fails over, as its node knows, and is wanted to run.
pub(crate) fn moves_by_itself(vm: &Vm) -> bool {
    let availability = vm.claim.as_ref().map_or(vm.spec.availability, |claim| claim.availability);
    availability == Availability::Failover && vm.power.want == WantPower::On
}

/// A copy of the state on its way, and what happened to it.
struct Foreseen {
    after: State,
    answer: WhatIf,
    /// Where somebody reads it.
    advice: Option<Gathered>,
    /// The nodes that are lost or drained.
    nodes: BTreeSet<NodeId>,
}

impl Foreseen {
    fn without(state: &State, lose: &[NodeId], drain: &[NodeId]) -> Self {
        let mut after = state.clone();
        change(&mut after, lose, |node| node.up = false);
        let gone = |vm: &&Vm| vm.status == VmStatus::Deleting && vm.fails_over();
        lose.iter()
            .flat_map(|node| state.vms_on(*node))
            .filter(gone)
            .for_each(|vm| forget(&mut after, vm.id));
        change(&mut after, drain, |node| {
            node.enabled = false;
            node.disabled_reason = Some("it is to be drained".to_owned());
        });
        let nodes = lose.iter().chain(drain).copied().collect();
        Self { after, answer: WhatIf::default(), advice: None, nodes }
    }

    /// These VMs lose the host they have, and are placed in the order of the queue.
    fn go_on(&mut self, mut vms: Vec<&Vm>) {
        vms.retain(|vm| vm.status != VmStatus::Deleting);
        vms.sort_by_key(|vm| queue::rank(vm));
        vms.iter().for_each(|vm| displace(&mut self.after, vm));
        let policy = Policy::of(&self.after.scheduler);
        let mut batch = Batch::new(&self.after, &policy);
        let mut placed = Vec::new();
        for vm in vms {
            let Some(record) = self.after.vms.get(&vm.id) else { continue };
            let to = batch.place(record).map(|chosen| chosen.node);
            match to {
                Some(node) => placed.push((vm.id, node)),
                None => batch.keep_host_of(record),
            }
            let (name, by_itself) = (vm.name.clone(), moves_by_itself(vm));
            let from = vm.claim.as_ref().map(|claim| claim.node);
            match (from, to) {
                (None, to) => self.answer.waiting.push(Waiting { vm: vm.id, name, to }),
                (Some(from), Some(to)) => {
                    self.answer.moves.push(Move { vm: vm.id, name, from, to, by_itself });
                }
                (Some(from), None) => {
                    let refusals = batch.refusals(record);
                    if let Some(advice) =
                        self.advice.as_mut().filter(|_| self.answer.stuck.len() < ADVISED_MAX)
                    {
                        batch.advise(record, &self.nodes, advice);
                    }
                    self.answer.stuck.push(Stuck { vm: vm.id, name, from, refusals, by_itself });
                }
            }
        }
        placed.into_iter().for_each(|(vm, node)| place(&mut self.after, vm, node));
    }
}
