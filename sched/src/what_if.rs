//! What would become of the VMs on some nodes if those nodes were lost or drained: where each would fit,
//! or why nowhere. Decided on a copy of the state in which the nodes are gone and their VMs wait, by the
//! same filters and weighers and in the order of the queue.
//!
//! Of lost nodes, VMs that fail over go first, with those that wait already: they move by themselves, unless no fence or
//! no majority can come. Then drained nodes are emptied as their drain would, by the same code. Pinned VMs of lost nodes
//! stay until somebody moves them; what is said of them holds for that moment. Those that are being deleted go nowhere;
//! those a fence takes are gone with it, and hold no group to the lost node.

mod hindrance;

use std::collections::{BTreeMap, BTreeSet};

use holm_model::node::{Drain, DrainPinned, Node};
use holm_model::vm::{Availability, DEFAULT_STOP_TIMEOUT_S, HostReason, Vm, VmStatus, WantPower};
use holm_model::{NodeId, State, Timestamp, VmId};
use serde::{Deserialize, Serialize};

pub use self::hindrance::{Voters, hindrances_of_any_loss};
use self::hindrance::{without_fence, without_majority};
use crate::advice::{Advice, Gathered};
use crate::controllers::drain::{Left, Next, Outlook};
use crate::imagine::{change, displace, forget, place};
use crate::policy::Policy;
use crate::queue;
use crate::select::{Batch, REASONS_MAX, Reasons};

/// Every VM of the nodes in question, except those that are being deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhatIf {
    /// VMs that fit elsewhere, in the order they would be placed.
    pub moves: Vec<Move>,
    /// VMs that fit nowhere.
    pub stuck: Vec<Stuck>,
    /// VMs that a drain does not move, in the order in which they go.
    #[serde(default)]
    pub stays: Vec<Stays>,
    /// VMs that wait already, in the order of the queue.
    pub waiting: Vec<Waiting>,
    /// What to do next about the other nodes that refuse those of `stuck`, of which the first [`ADVISED_MAX`] are asked.
    #[serde(default)]
    pub advice: Vec<Advice>,
    /// What keeps VMs from coming back by themselves, or nodes from being emptied, whatever room there is: a sentence
    /// each.
    #[serde(default)]
    pub hindrances: Vec<String>,
}

/// What helps one VM mostly helps those like it. So many have their refusals in words, too.
pub const ADVISED_MAX: usize = 100;

/// A VM and its next host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub vm: VmId,
    pub name: String,
    pub from: NodeId,
    pub to: NodeId,
    /// Nobody has to ask for it: the VM fails over, or the drain moves it.
    pub by_itself: bool,
}

/// A VM without a next host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stuck {
    pub vm: VmId,
    pub name: String,
    pub from: NodeId,
    /// Why nodes refuse it once the others have moved, in the words of some; none after the first [`ADVISED_MAX`] VMs.
    pub refusals: Vec<HostReason>,
    /// Nodes by the filter that refuses them.
    #[serde(default)]
    pub counts: BTreeMap<String, u32>,
    pub by_itself: bool,
}

/// A VM that stays with its node when that is drained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stays {
    pub vm: VmId,
    pub name: String,
    pub from: NodeId,
    pub how: Stay,
}

/// How it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stay {
    /// It is off.
    Off,
    /// It is shut down, or runs on, as the drain will say of pinned VMs.
    StopsOrKept,
    /// It is shut down.
    Stops,
    /// It runs on.
    Kept,
    /// It is on its way to another node already.
    Leaving,
}

/// A VM that waits for a host, and the one it would get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub vm: VmId,
    pub name: String,
    pub to: Option<NodeId>,
}

/// What would become of the VMs on the nodes of `lose` and `drain`, as `voters` decide it.
pub fn what_if(state: &State, lose: &[NodeId], drain: &[NodeId], voters: &Voters) -> WhatIf {
    let mut foreseen = Foreseen::without(state, lose, drain);
    foreseen.advice = Some(Gathered::default());
    foreseen.hinder(state, lose, drain, voters);
    let lost: BTreeSet<NodeId> = lose.iter().copied().collect();
    let displaced = || lost.iter().flat_map(|node| state.vms_on(*node));
    let (free, held): (Vec<&Vm>, Vec<&Vm>) = displaced().partition(|vm| foreseen.moves_by_itself(vm));
    let waiting = state.waiting.iter().filter_map(|id| state.vms.get(id));
    if foreseen.is_undecided {
        foreseen.still_wait(waiting.collect());
    } else {
        foreseen.go_on(free.into_iter().chain(waiting).collect());
    }
    foreseen.empty(state, drain);
    foreseen.go_on(held);
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
    /// Where somebody reads it, and the words of refusals.
    advice: Option<Gathered>,
    /// The nodes that are lost or drained.
    nodes: BTreeSet<NodeId>,
    /// Those of them that keep their VMs, since they are not fenced, or not emptied.
    held: BTreeSet<NodeId>,
    /// No majority is left.
    is_undecided: bool,
}

impl Foreseen {
    fn without(state: &State, lose: &[NodeId], drain: &[NodeId]) -> Self {
        let mut after = state.clone();
        change(&mut after, lose, |node| (node.up, node.drain) = (false, None));
        let gone = |vm: &&Vm| vm.status == VmStatus::Deleting && vm.fails_over();
        lose.iter()
            .flat_map(|node| state.vms_on(*node))
            .filter(gone)
            .for_each(|vm| forget(&mut after, vm.id));
        change(&mut after, drain, begin_drain);
        let nodes = lose.iter().chain(drain).copied().collect();
        let (answer, held) = (WhatIf::default(), BTreeSet::new());
        Self { after, answer, advice: None, nodes, held, is_undecided: false }
    }

    /// Finds what keeps VMs where they are.
    fn hinder(&mut self, state: &State, lose: &[NodeId], drain: &[NodeId], voters: &Voters) {
        let lost: BTreeSet<NodeId> = lose.iter().copied().collect();
        if let Some(sentence) = without_majority(state, &lost, voters) {
            self.answer.hindrances.push(sentence);
            self.is_undecided = true;
            self.held = self.nodes.clone();
            return;
        }
        let unfenced = lost.iter().filter_map(|id| {
            let node = state.nodes.get(id)?;
            Some((node, without_fence(state, node)?))
        });
        let down = drain.iter().filter_map(|id| state.nodes.get(id)).filter(|node| !node.up).map(|node| {
            (node, format!("node `{}` is down: nothing is moved or stopped there before it is up", node.name))
        });
        for (node, sentence) in unfenced.chain(down) {
            self.held.insert(node.id);
            self.answer.hindrances.push(sentence);
        }
    }

    fn moves_by_itself(&self, vm: &Vm) -> bool {
        let held = vm.claim.as_ref().is_some_and(|claim| self.held.contains(&claim.node));
        moves_by_itself(vm) && !held
    }

    /// Nobody gives them a host.
    fn still_wait(&mut self, mut waiting: Vec<&Vm>) {
        queue::sort(&mut waiting);
        let still = |vm: &Vm| Waiting { vm: vm.id, name: vm.name.clone(), to: None };
        self.answer.waiting.extend(waiting.into_iter().map(still));
    }

    /// These VMs lose the host they have, and are placed in the order of the queue.
    fn go_on(&mut self, mut vms: Vec<&Vm>) {
        vms.retain(|vm| vm.status != VmStatus::Deleting);
        queue::sort(&mut vms);
        vms.iter().for_each(|vm| displace(&mut self.after, vm));
        let policy = Policy::of(&self.after.scheduler);
        let mut batch = Batch::new(&self.after, &policy);
        let (mut placed, mut unplaced) = (Vec::new(), Vec::new());
        for turn in queue::turns(&vms) {
            let records: Vec<&Vm> = turn.iter().filter_map(|vm| self.after.vms.get(&vm.id)).collect();
            let chosen = batch.place_turn(&records).unwrap_or_default();
            let mut hosts = chosen.into_iter().map(|chosen| chosen.node);
            for (vm, record) in turn.iter().zip(records) {
                let to = hosts.next();
                placed.extend(to.map(|node| (vm.id, node)));
                let (name, by_itself) = (vm.name.clone(), self.moves_by_itself(vm));
                let from = vm.claim.as_ref().map(|claim| claim.node);
                match (from, to) {
                    (None, to) => self.answer.waiting.push(Waiting { vm: vm.id, name, to }),
                    (Some(from), Some(to)) => {
                        self.answer.moves.push(Move { vm: vm.id, name, from, to, by_itself });
                    }
                    (Some(from), None) => unplaced.push((record, from, by_itself)),
                }
            }
        }
        // Once all are placed, as it would be recorded.
        for (record, from, by_itself) in unplaced {
            let mut reasons = Reasons::default();
            if let Some(advice) = &mut self.advice {
                reasons = batch.reasons_of(record, self.answer.worded());
                if self.answer.stuck.len() < ADVISED_MAX {
                    batch.advise(record, &self.nodes, advice);
                }
            }
            self.answer.strand(record, from, by_itself, reasons);
        }
        placed.into_iter().for_each(|(vm, node)| place(&mut self.after, vm, node));
    }

    /// What the drain controller makes of these nodes; `state` is before it.
    fn empty(&mut self, state: &State, drain: &[NodeId]) {
        let drained: BTreeSet<NodeId> = drain.iter().copied().collect();
        let (imagined, policy) = (self.after.clone(), Policy::of(&self.after.scheduler));
        let outlook = Outlook::new(&imagined, &policy, &BTreeSet::new());
        let is_asked =
            |left: &&Left<'_>| drained.contains(&left.node) && left.vm.status != VmStatus::Deleting;
        let mut seen = BTreeSet::new();
        for left in outlook.left.iter().filter(is_asked) {
            seen.insert(left.vm.id);
            let by_itself = !self.held.contains(&left.node);
            let (vm, name, from) = (left.vm.id, left.vm.name.clone(), left.node);
            let said = state.nodes.get(&from).is_some_and(|node| node.drain.is_some());
            let how = match left.next {
                Next::Moves { to } => {
                    displace(&mut self.after, left.vm);
                    place(&mut self.after, vm, to);
                    self.answer.moves.push(Move { vm, name, from, to, by_itself });
                    continue;
                }
                Next::Stuck => {
                    if let Some(advice) =
                        self.advice.as_mut().filter(|_| self.answer.stuck.len() < ADVISED_MAX)
                    {
                        outlook.advise(left, &self.nodes, advice);
                    }
                    let reasons = outlook.reasons_of(left, self.answer.worded());
                    self.answer.strand(left.vm, from, by_itself, reasons);
                    continue;
                }
                Next::Stops | Next::Kept if !said => Stay::StopsOrKept,
                Next::Stops | Next::Stopping => Stay::Stops,
                Next::Kept => Stay::Kept,
                Next::Leaving => Stay::Leaving,
            };
            self.answer.stays.push(Stays { vm, name, from, how });
        }
        let off = drained.iter().flat_map(|node| state.vms_on(*node).map(move |vm| (vm, *node)));
        let off = off.filter(|(vm, _)| vm.status != VmStatus::Deleting && !seen.contains(&vm.id));
        self.answer.stays.extend(off.map(|(vm, from)| {
            let name = vm.name.clone();
            Stays { vm: vm.id, name, from, how: Stay::Off }
        }));
    }
}

impl WhatIf {
    /// Of how many hosts the words are wanted for the next that is stuck.
    fn worded(&self) -> usize {
        if self.stuck.len() < ADVISED_MAX { REASONS_MAX } else { 0 }
    }

    fn strand(&mut self, vm: &Vm, from: NodeId, by_itself: bool, reasons: Reasons) {
        let Reasons { counts, mut refusals, .. } = reasons;
        if self.stuck.len() >= ADVISED_MAX {
            refusals.clear();
        }
        self.stuck.push(Stuck { vm: vm.id, name: vm.name.clone(), from, refusals, counts, by_itself });
    }
}

/// As apply begins one; what it says of pinned VMs nobody has said yet.
fn begin_drain(node: &mut Node) {
    let stop_timeout_s = DEFAULT_STOP_TIMEOUT_S;
    let asked = Drain { since: Timestamp::default(), stop_timeout_s, pinned: DrainPinned::Stop };
    node.drain = node.drain.or(Some(asked));
    if node.enabled {
        node.enabled = false;
        node.disabled_reason = Some("draining".to_owned());
    }
}
