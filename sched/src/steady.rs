//! Where the policy refuses what breaks N+1: VMs that are not to fail over take no room that those need which are. What is
//! admitted was judged so (`admission.rs`); but one that fits nowhere then, and waits, would take the next room there is.
//! So it is held back for as long as placing it would leave a failover VM without a place that had one, and the record
//! says whose. The queue goes on as if it were not there.
//!
//! Judged in halves: mostly all of a run hurt nobody, and that takes one look. The judgement of one that has waited
//! holds only until something else is admitted; apply sees to it.

use std::collections::{BTreeMap, BTreeSet};

use holm_model::policy::NPlusOne as Rule;
use holm_model::vm::{HostReason, Vm, WantPower};
use holm_model::{NodeId, State, VmId};

use crate::imagine::{displace, place};
use crate::n_plus_one::{NPlusOne, n_plus_one};
use crate::policy::Policy;
use crate::preempt::Eviction;
use crate::queue;
use crate::request::same_shape;

/// What stands for this rule in a record, where a filter does for others.
pub const BY: &str = "NPlusOne";

/// Most judgements of one run. Beyond them VMs are held back unjudged; only of many unlike ones that all would hurt.
const LOOKS_MAX: usize = 100;

/// A state, and what N+1 says of it: changed only by what leaves nobody without a place who had one. That there is too
/// little room already is no reason to refuse what takes none of it.
pub struct Steady {
    state: State,
    /// Once it was asked for: mostly nobody is without a place, and then it makes no difference.
    verdict: Option<NPlusOne>,
}

impl Steady {
    pub fn of(state: State) -> Self {
        Self { state, verdict: None }
    }

    /// Puts the VMs on these nodes, from the queue or from where they are.
    ///
    /// # Errors
    /// What would no longer hold; then nothing changed.
    pub fn put(&mut self, vms: &[(VmId, NodeId)]) -> Result<(), NPlusOne> {
        let mut after = self.state.clone();
        for (id, node) in vms {
            if let Some(vm) = self.state.vms.get(id) {
                displace(&mut after, vm);
                place(&mut after, *id, *node);
            }
        }
        self.become_if_steady(after)
    }

    /// Whether those may go back to the queue to make room.
    fn evict(&mut self, vm: VmId, eviction: &Eviction) -> Result<(), NPlusOne> {
        let mut after = self.state.clone();
        for victim in eviction.victims.iter().filter_map(|id| self.state.vms.get(id)) {
            displace(&mut after, victim);
            if victim.power.want == WantPower::On {
                after.waiting.insert(victim.id);
            }
        }
        place(&mut after, vm, eviction.node);
        self.become_if_steady(after)
    }

    fn become_if_steady(&mut self, after: State) -> Result<(), NPlusOne> {
        let verdict = n_plus_one(&after);
        if !verdict.holds() {
            let before = self.verdict.get_or_insert_with(|| n_plus_one(&self.state));
            let taken = verdict.clone().beyond(before);
            if !taken.holds() {
                return Err(taken);
            }
        }
        *self = Self { state: after, verdict: Some(verdict) };
        Ok(())
    }
}

/// Whether it takes room from others without being one of those the room is for.
fn is_other(vm: &Vm) -> bool {
    vm.spec.availability.is_pinned()
}

/// Whether the record says that it is held back, and the policy still does.
pub fn is_held_back(state: &State, vm: &Vm) -> bool {
    state.scheduler.n_plus_one == Rule::Refuse
        && is_other(vm)
        && vm.refusals.iter().any(|refusal| refusal.by == BY)
}

/// The VMs that are not to be placed now, and why: the node each would get, and whose place that is.
pub fn held_back(state: &State, policy: &Policy, withheld: &BTreeSet<NodeId>) -> BTreeMap<VmId, HostReason> {
    let mut held = BTreeMap::new();
    if state.scheduler.n_plus_one != Rule::Refuse {
        return held;
    }
    loop {
        let offered = without(state, held.keys());
        let placements = queue::run(&offered, policy, withheld).placements;
        let all = placements.iter().map(|placement| (placement.vm, placement.node));
        let (others, free): (Vec<_>, Vec<_>) =
            all.partition(|(vm, _)| offered.vms.get(vm).is_some_and(is_other));
        if others.is_empty() {
            return held;
        }
        let batch = |(vm, _): &(VmId, NodeId)| offered.vms.get(vm).and_then(|vm| vm.batch);
        let turns = others.chunk_by(|a, b| batch(a).is_some() && batch(a) == batch(b));
        let mut sieve =
            Sieve { steady: Steady::of(among_failover(&offered, &free)), looks: 0, held: Vec::new() };
        sieve.sift(&turns.collect::<Vec<_>>());
        if sieve.held.is_empty() {
            return held;
        }
        // In their place others may fit.
        held.extend(sieve.held);
    }
}

/// The state without those VMs in the queue.
pub fn without<'a>(state: &State, held: impl Iterator<Item = &'a VmId>) -> State {
    let mut offered = state.clone();
    held.for_each(|vm| _ = offered.waiting.remove(vm));
    offered
}

/// How many entries one decision may place VMs by: what is admitted by the first is news to a judgement of before it.
pub fn entries_max(state: &State) -> usize {
    if state.scheduler.n_plus_one == Rule::Refuse { 1 } else { usize::MAX }
}

/// Whether a VM that is none of those the room is for may have others evicted.
pub fn may_evict(state: &State, vm: VmId, eviction: &Eviction) -> bool {
    let judged = state.scheduler.n_plus_one == Rule::Refuse && state.vms.get(&vm).is_some_and(is_other);
    !judged || Steady::of(among_failover(state, &[])).evict(vm, eviction).is_ok()
}

/// The state as if only failover VMs waited, with some placed.
fn among_failover(state: &State, placed: &[(VmId, NodeId)]) -> State {
    let others = state.waiting.iter().filter(|id| state.vms.get(*id).is_some_and(is_other));
    let mut among = without(state, others);
    placed.iter().for_each(|(vm, node)| place(&mut among, *vm, *node));
    among
}

/// Lets in, in order, what hurts nobody. VMs of an atomic batch have one turn.
struct Sieve {
    steady: Steady,
    looks: usize,
    held: Vec<(VmId, HostReason)>,
}

impl Sieve {
    fn sift(&mut self, turns: &[&[(VmId, NodeId)]]) {
        let mut left = Vec::new();
        for turn in turns {
            match self.is_like_held(turn) {
                Some(message) => self.hold(turn, &message),
                None => left.push(*turn),
            }
        }
        self.look(&left);
    }

    /// What hurts with less room taken hurts with more.
    fn is_like_held(&self, turn: &[(VmId, NodeId)]) -> Option<String> {
        let [(vm, _)] = turn else { return None };
        let record = |vm: &VmId| self.steady.state.vms.get(vm).filter(|vm| vm.batch.is_none());
        let vm = record(vm)?;
        let is_alike = |other: &VmId| record(other).is_some_and(|other| same_shape(other, vm));
        self.held.iter().find(|(other, _)| is_alike(other)).map(|(_, reason)| reason.message.clone())
    }

    fn look(&mut self, turns: &[&[(VmId, NodeId)]]) {
        if turns.is_empty() {
            return;
        }
        self.looks += 1;
        let taken = match self.looks > LOOKS_MAX {
            true => "many others are held back, and it was not judged yet".to_owned(),
            false => match self.steady.put(&turns.concat()) {
                Ok(()) => return,
                Err(taken) => taken.sentences(&self.steady.state).join("; "),
            },
        };
        if let [turn] = turns {
            self.hold(turn, &format!("failover VMs need the room: with it there, {taken}"));
            return;
        }
        let (first, rest) = turns.split_at(turns.len() / 2);
        self.sift(first);
        self.sift(rest);
    }

    fn hold(&mut self, turn: &[(VmId, NodeId)], message: &str) {
        let reason = |node| HostReason { node, by: BY.to_owned(), message: message.to_owned() };
        self.held.extend(turn.iter().map(|(vm, node)| (*vm, reason(*node))));
    }
}
