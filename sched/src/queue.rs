//! The queue of waiting VMs, and one run over it.
//!
//! Order: greater priority first, then the older VM (a clock that is set moves all their ages alike), then the lesser
//! id. Nobody starves: every run begins
//! at the front, so room that appears is offered to the first VM that it fits; a VM that fits nowhere holds
//! up none behind it, except on the host that is kept for it once it has long waited (`reserve.rs`); and
//! nobody waits longer than the build time-out, which ends in ERROR with the reasons.
//!
//! VMs of an atomic batch have one turn, when the first of them is due, and all get hosts or none does. No host is kept
//! for a batch, and nobody evicted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use holm_model::command::{Choice, Placement};
use holm_model::vm::{Decision, RUNNERS_UP_MAX, Vm};
use holm_model::{NodeId, State, Timestamp, VmId};

use crate::policy::Policy;
use crate::select::{Batch, Reasons};
use crate::shape::Chosen;
use crate::steady;

/// Most placements of one run: one log entry stays small and the next decision sees its effect.
pub const PLACEMENTS_MAX: usize = 1_000;

/// What one run over the queue gave.
pub struct Run<'a> {
    /// In the order of the queue; those of an atomic batch stand together.
    pub placements: Vec<Placement>,
    /// VMs that fit on no host that was offered.
    pub unplaced: Vec<&'a Vm>,
    /// Why not all of an atomic batch fit, by batch.
    pub short: BTreeMap<VmId, Reasons>,
    /// The hosts as the placements leave them.
    pub batch: Batch<'a>,
}

/// Places the waiting VMs in order, on no host of `withheld`.
pub fn run<'a>(state: &'a State, policy: &'a Policy, withheld: &BTreeSet<NodeId>) -> Run<'a> {
    let mut batch = Batch::new(state, policy).withhold(withheld);
    let (mut placements, mut unplaced, mut short) = (Vec::new(), Vec::new(), BTreeMap::new());
    let order = in_order(state);
    for turn in turns(&order) {
        if placements.len() + turn.len() > PLACEMENTS_MAX {
            break;
        }
        match batch.place_turn(turn) {
            Ok(chosen) => {
                let chosen = turn.iter().zip(chosen);
                placements.extend(chosen.map(|(vm, chosen)| placement(state, withheld, vm.id, chosen)));
            }
            Err(reasons) => {
                unplaced.extend(turn);
                short.extend(turn[0].batch.zip(reasons));
            }
        }
    }
    Run { placements, unplaced, short, batch }
}

/// Those of `vms`, in the order of the queue, whose turn is one.
pub fn turns<'v, 'a>(vms: &'v [&'a Vm]) -> impl Iterator<Item = &'v [&'a Vm]> {
    vms.chunk_by(|a, b| a.batch.is_some() && a.batch == b.batch)
}

/// Makes the decision for `vm` again: `state` as it was at the revision a decision has `seen`, `withheld`
/// as it has recorded. The same state gives the same choice, bit for bit; none if no host fitted `vm`.
pub fn replay(state: &State, withheld: &BTreeSet<NodeId>, vm: VmId) -> Option<Placement> {
    let policy = Policy::of(&state.scheduler);
    let held = steady::held_back(state, &policy, withheld);
    let offered = steady::without(state, held.keys());
    run(&offered, &policy, withheld).placements.into_iter().find(|placement| placement.vm == vm)
}

/// The decision that `made` records of `vm`, made again on `seen`, the state of the revision it has seen: equal to it,
/// or something is wrong.
pub fn decide_again(seen: &State, vm: VmId, made: &Decision) -> Decision {
    let choice = replay(seen, &made.withheld, vm).and_then(|placement| placement.choice);
    let choice = choice.unwrap_or_else(|| no_choice(seen, &made.withheld));
    let mut scores = choice.scores;
    scores.truncate(RUNNERS_UP_MAX + 1);
    Decision {
        seen: choice.seen,
        policy: choice.policy.unwrap_or(made.policy),
        candidates: choice.candidates,
        scores,
        ..made.clone()
    }
}

fn in_order(state: &State) -> Vec<&Vm> {
    let mut waiting: Vec<&Vm> = state.waiting.iter().filter_map(|id| state.vms.get(id)).collect();
    sort(&mut waiting);
    waiting
}

/// Brings `vms` into the order of the queue.
pub fn sort(vms: &mut [&Vm]) {
    vms.sort_by_key(|vm| rank(vm));
    let mut due = BTreeMap::new();
    for vm in vms.iter() {
        if let Some(batch) = vm.batch {
            due.entry(batch).or_insert_with(|| rank(vm));
        }
    }
    if !due.is_empty() {
        vms.sort_by_key(|vm| vm.batch.and_then(|batch| due.get(&batch).copied()).unwrap_or_else(|| rank(vm)));
    }
}

/// The place of a VM in the queue; the least is the first.
pub fn rank(vm: &Vm) -> (Reverse<i32>, Timestamp, VmId) {
    (Reverse(vm.spec.scheduling.priority), vm.created_at, vm.id)
}

fn placement(state: &State, withheld: &BTreeSet<NodeId>, vm: VmId, chosen: Chosen) -> Placement {
    let none = no_choice(state, withheld);
    let choice = Choice { candidates: chosen.candidates, scores: chosen.scores, ..none };
    Placement { vm, node: chosen.node, choice: Some(choice) }
}

/// The record of a decision on `state` that found no host.
pub fn no_choice(state: &State, withheld: &BTreeSet<NodeId>) -> Choice {
    Choice {
        seen: state.revision,
        withheld: withheld.clone(),
        candidates: 0,
        scores: Vec::new(),
        policy: Some(state.scheduler.revision),
    }
}
