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
    verdict: NPlusOne,
}

impl Steady {
    pub fn of(state: State) -> Self {
        Self { verdict: n_plus_one(&state), state }
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
        let taken = verdict.clone().beyond(&self.verdict);
        if !taken.holds() {
            return Err(taken);
        }
        *self = Self { state: after, verdict };
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
        let mut sieve =
            Sieve { steady: Steady::of(among_failover(&offered, &free)), looks: 0, held: Vec::new() };
        sieve.sift(&others);
        if sieve.held.is_empty() {
            return held;
        }
        // In their place others may fit.
        let with_batch = |(vm, why): (VmId, HostReason)| {
            let batch = state.vms.get(&vm).and_then(|vm| vm.batch);
            let waiting = offered.waiting.iter().filter_map(|id| offered.vms.get(id));
            let others = waiting.filter(|other| other.batch.is_some() && other.batch == batch);
            let all: Vec<VmId> = others.map(|vm| vm.id).chain([vm]).collect();
            all.into_iter().map(move |vm| (vm, why.clone()))
        };
        held.extend(sieve.held.into_iter().flat_map(with_batch));
    }
}

/// The state without those VMs in the queue.
pub fn without<'a>(state: &State, held: impl Iterator<Item = &'a VmId>) -> State {
    let mut offered = state.clone();
    held.for_each(|vm| _ = offered.waiting.remove(vm));
    offered
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

/// Lets in, in order, what hurts nobody.
struct Sieve {
    steady: Steady,
    looks: usize,
    held: Vec<(VmId, HostReason)>,
}

impl Sieve {
    fn sift(&mut self, vms: &[(VmId, NodeId)]) {
        let like_held = |vm: &VmId| {
            let vm = self.steady.state.vms.get(vm)?;
            let alike = |(other, _): &&(VmId, HostReason)| {
                self.steady.state.vms.get(other).is_some_and(|other| same_shape(other, vm))
            };
            self.held.iter().find(alike).map(|(_, reason)| reason.clone())
        };
        // What hurts with less room taken hurts with more.
        let alike: Vec<_> = vms.iter().map(|(vm, _)| like_held(vm)).collect();
        let mut left = Vec::new();
        for ((vm, node), alike) in vms.iter().zip(alike) {
            match alike {
                Some(reason) => self.held.push((*vm, HostReason { node: *node, ..reason })),
                None => left.push((*vm, *node)),
            }
        }
        self.look(&left);
    }

    fn look(&mut self, vms: &[(VmId, NodeId)]) {
        if vms.is_empty() {
            return;
        }
        self.looks += 1;
        let message = match self.looks > LOOKS_MAX {
            true => "not judged yet: many others are held back".to_owned(),
            false => match self.steady.put(vms) {
                Ok(()) => return,
                Err(taken) => taken.sentences(&self.steady.state).join("; "),
            },
        };
        if let [(vm, node)] = vms {
            let message = format!("failover VMs need the room: with it there, {message}");
            self.held.push((*vm, HostReason { node: *node, by: BY.to_owned(), message }));
            return;
        }
        let (first, rest) = vms.split_at(vms.len() / 2);
        self.sift(first);
        self.sift(rest);
    }
}
