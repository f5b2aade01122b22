//! N+1: whether the cluster would still hold its failover VMs with any one node gone. Pinned VMs do not count,
//! except for the room they take: they wait for their node.
//!
//! First what was asked for comes about: a running VM that is to fail over does, one that is to leave its node has left,
//! and the waiting VMs get the hosts they would get. Then each node is lost by itself, and its failover VMs are placed on the others in the order of the queue,
//! by the same filters and weighers as then. One that is off stays with its node, whose room it takes, until it is
//! started.

use holm_model::command::Command;
use holm_model::reply::Reason;
use holm_model::vm::{Availability, Vm};
use holm_model::{Actor, Entry, NodeId, Proposal, Reply, Resources, State, Timestamp, VmId, apply};
use serde::{Deserialize, Serialize};

use crate::imagine::{fulfil, settle};
use crate::what_if::{failover_from, moves_by_itself};

/// So many VMs are named in a sentence.
const NAMES_MAX: usize = 5;

/// The verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NPlusOne {
    /// How many failover VMs there are that run, or are to.
    pub vms: usize,
    /// Failover VMs that fit nowhere even with every node there.
    pub waiting: Vec<VmId>,
    /// Nodes whose loss would leave failover VMs without a host, by id.
    pub losses: Vec<Loss>,
}

/// One node that the cluster cannot do without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    pub node: NodeId,
    /// How many failover VMs it has.
    pub vms: usize,
    /// Those of them that would fit nowhere, in the order of the queue.
    pub stuck: Vec<VmId>,
    /// What they claim together.
    pub missing: Resources,
}

impl NPlusOne {
    pub fn holds(&self) -> bool {
        self.waiting.is_empty() && self.losses.is_empty()
    }

    /// What does not hold and did `before`: with less a change did not come between.
    pub fn beyond(mut self, before: &Self) -> Self {
        self.waiting.retain(|vm| !before.waiting.contains(vm));
        let stuck_before = |node: NodeId| before.losses.iter().find(|loss| loss.node == node);
        self.losses.retain(|loss| {
            let before = stuck_before(loss.node).map_or(&[][..], |loss| &loss.stuck);
            loss.stuck.iter().any(|vm| !before.contains(vm))
        });
        self
    }

    /// What does not hold, a sentence each, with names from `state`; none when all does.
    pub fn sentences(&self, state: &State) -> Vec<String> {
        let waiting = self.waiting.len();
        let names = |vms: &[VmId]| some_names(state, vms);
        let now = (waiting > 0).then(|| {
            let (all, names) = (self.vms, names(&self.waiting));
            format!("{waiting} of {all} failover VMs fit nowhere even now ({names})")
        });
        let loss = |loss: &Loss| {
            let name =
                state.nodes.get(&loss.node).map_or_else(|| loss.node.to_string(), |node| node.name.clone());
            let missing = loss.missing.0.iter().filter(|(_, amount)| **amount > 0);
            let missing: Vec<String> = missing.map(|(class, amount)| format!("{amount} {class}")).collect();
            format!(
                "without node `{name}`, {} of its {} failover VMs would fit nowhere ({}); they claim {}",
                loss.stuck.len(),
                loss.vms,
                names(&loss.stuck),
                missing.join(", ")
            )
        };
        now.into_iter().chain(self.losses.iter().map(loss)).collect()
    }
}

/// The first few by name, and how many more there are.
fn some_names(state: &State, vms: &[VmId]) -> String {
    let name = |vm: &VmId| state.vms.get(vm).map_or_else(|| vm.to_string(), |vm| vm.name.clone());
    let mut names: Vec<String> = vms.iter().take(NAMES_MAX).map(name).collect();
    if vms.len() > NAMES_MAX {
        names.push(format!("and {} more", vms.len() - NAMES_MAX));
    }
    names.join(", ")
}

/// The verdict about `state`.
pub fn n_plus_one(state: &State) -> NPlusOne {
    if !state.vms.values().any(|vm| vm.spec.availability == Availability::Failover) {
        return NPlusOne::default();
    }
    let mut settled = state.clone();
    fulfil(&mut settled);
    settle(&mut settled);
    let failover = settled.vms.values().filter(|vm| moves_by_itself(vm));
    let (waiting, placed): (Vec<&Vm>, Vec<&Vm>) = failover
        .filter(|vm| vm.claim.is_some() || settled.waiting.contains(&vm.id))
        .partition(|vm| vm.claim.is_none());
    NPlusOne {
        vms: waiting.len() + placed.len(),
        waiting: waiting.iter().map(|vm| vm.id).collect(),
        losses: settled.nodes.keys().filter_map(|node| loss(&settled, *node)).collect(),
    }
}

fn loss(state: &State, node: NodeId) -> Option<Loss> {
    let vms = state.vms_on(node).filter(|vm| moves_by_itself(vm)).count();
    if vms == 0 {
        return None;
    }
    let answer = failover_from(state, node);
    let stuck: Vec<VmId> =
        answer.stuck.iter().filter(|stuck| stuck.by_itself).map(|stuck| stuck.vm).collect();
    let mut missing = Resources::default();
    let claims = stuck.iter().filter_map(|id| state.vms.get(id)?.claim.as_ref());
    claims.for_each(|claim| missing.add(&claim.resources));
    (!stuck.is_empty()).then_some(Loss { node, vms, stuck, missing })
}

/// What would be after a change.
pub struct After {
    pub verdict: NPlusOne,
    /// The state with the change applied.
    pub state: State,
}

/// The verdict about `state` with `command` applied.
///
/// # Errors
/// What the command would be refused with.
pub fn n_plus_one_after(
    state: &State,
    at: Timestamp,
    actor: &Actor,
    command: &Command,
) -> Result<After, Reason> {
    let mut after = state.clone();
    let proposal =
        Proposal { key: None, seen: state.revision, actor: actor.clone(), command: command.clone() };
    match apply(&mut after, &Entry::new(at, proposal)).reply {
        Reply::Rejected(reason) => Err(reason),
        Reply::Done(_) | Reply::Duplicate(_) => Ok(After { verdict: n_plus_one(&after), state: after }),
    }
}
