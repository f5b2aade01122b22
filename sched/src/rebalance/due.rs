//! Which moves of a plan may begin now. A plan is a sequence, each move made on what those before it leave; those that
//! leave their hosts all at once would stop together, find no room yet, and land anywhere. So few are under way at a
//! time, each only while its host takes it as things stand, of a group one, and under a policy that refuses what breaks
//! N+1 none that would; the rest is for the next plan, which begins from what these left.

use std::collections::BTreeSet;

use holm_model::feasible::can_arrive;
pub use holm_model::limits::MOVES_AT_ONCE;
use holm_model::policy::NPlusOne;
use holm_model::vm::Vm;
use holm_model::{GroupId, NodeId, State};

use super::{Move, Picture, Plan};
use crate::policy::Policy;
use crate::queue;
use crate::steady::Steady;

/// The moves that may begin, in the order of the plan.
pub fn due<'p>(state: &State, policy: &Policy, plan: &'p Plan) -> Vec<&'p Move> {
    let mut busy: BTreeSet<GroupId> = under_way(state).filter_map(|(vm, _)| group(vm)).collect();
    let at_once =
        MOVES_AT_ONCE.saturating_sub(under_way(state).filter(|(vm, _)| can_arrive(state, vm)).count());
    // Room first to those that wait for a host, and to those that leave one already.
    let mut batch = queue::run(state, policy, &BTreeSet::new()).batch;
    for vm in state.vms.values().filter(|vm| vm.claim.is_some()) {
        let Some(vacate) = &vm.recovery.vacate else { continue };
        if !vacate.to.is_some_and(|to| batch.place_on(vm, to)) {
            batch.place(vm);
        }
    }
    let mut picture = Picture::of(state, policy);
    let refuses = state.scheduler.n_plus_one == NPlusOne::Refuse;
    let mut steady = refuses.then(|| Steady::of(state.clone()));
    let mut due = Vec::new();
    for planned in &plan.moves {
        if due.len() >= at_once {
            break;
        }
        let Some(vm) = state.vms.get(&planned.vm) else { continue };
        // Without those before it that cannot begin yet, it may gain nothing.
        let gains = picture.gain(vm, planned.to).is_some_and(|gain| gain > 0);
        let is_free = group(vm).is_none_or(|group| !busy.contains(&group));
        let mut may_go = |to| steady.as_mut().is_none_or(|steady| steady.put(&[(vm.id, to)]).is_ok());
        if gains && is_free && batch.place_on(vm, planned.to) && may_go(planned.to) {
            picture.make(vm, planned.to);
            busy.extend(group(vm));
            due.push(planned);
        }
    }
    due
}

/// VMs that were moved and have not arrived: on their way out, or waiting for the host they were moved to.
pub fn under_way(state: &State) -> impl Iterator<Item = (&Vm, NodeId)> {
    let leaving = state.vms.values().filter(|vm| vm.claim.is_some());
    let leaving = leaving.filter_map(|vm| Some((vm, vm.recovery.vacate.as_ref()?.to?)));
    let waiting = state.waiting.iter().filter_map(|id| state.vms.get(id));
    leaving.chain(waiting.filter_map(|vm| Some((vm, vm.recovery.move_to?))))
}

fn group(vm: &Vm) -> Option<GroupId> {
    vm.spec.scheduling.group
}
