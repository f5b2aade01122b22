//! What must change before a queue that found no more to do is worth another run: room, rules or the VMs that wait, as
//! far as the records of the nodes, aggregates and groups and of some VMs tell, who may be dead, or a moment that
//! comes. Whether a map was written to is one comparison, so thousands that wait cost an entry that cannot help nothing.

use holm_model::vm::{Vm, VmStatus};
use holm_model::{State, Timestamp};

use super::retry_pause_ms;

/// The next moment after `now` at which a VM that waits is to be judged anew.
pub fn until(state: &State, now: Timestamp) -> Timestamp {
    let scheduler = &state.scheduler;
    let reserve_after = (scheduler.reserve_after_s > 0).then(|| u64::from(scheduler.reserve_after_s) * 1000);
    let waiting = state.waiting.iter().filter_map(|id| state.vms.get(id));
    let moments = waiting.filter_map(|vm| Some((vm, vm.waiting_since?))).flat_map(|(vm, since)| {
        let failing_over = vm.recovery.failing_over;
        let give_up = (!failing_over).then(|| scheduler.build_timeout_ms());
        let retry = (failing_over && !vm.excluded.is_empty()).then(|| retry_pause_ms(vm));
        let pauses = [reserve_after, give_up, retry].into_iter().flatten();
        pauses.map(move |pause_ms| Timestamp(since.0.saturating_add(pause_ms)))
    });
    moments.filter(|at| *at > now).min().unwrap_or(Timestamp(u64::MAX))
}

/// Whether a run over the queue finds the same.
pub fn is_same(before: &State, now: &State) -> bool {
    before.waiting.ptr_eq(&now.waiting)
        && before.nodes.ptr_eq(&now.nodes)
        && before.building.ptr_eq(&now.building)
        && before.aggregates.ptr_eq(&now.aggregates)
        && before.groups.ptr_eq(&now.groups)
        && before.images.ptr_eq(&now.images)
        && before.leadership == now.leadership
        && before.scheduler == now.scheduler
        && now.vms_changed_since(before).all(|(before, now)| !matters(before, now))
}

/// Whether a change of a VM is one of what waits, or of where others are, or leave, or of whom to evict.
fn matters(before: Option<&Vm>, now: Option<&Vm>) -> bool {
    let (Some(before), Some(now)) = (before, now) else { return true };
    let waits = |vm: &Vm| vm.status == VmStatus::Build && vm.claim.is_none();
    waits(before)
        || waits(now)
        || before.claim != now.claim
        || (before.status == VmStatus::Deleting) != (now.status == VmStatus::Deleting)
        || before.power.want != now.power.want
        || before.recovery.vacate != now.recovery.vacate
        || before.spec != now.spec
}
