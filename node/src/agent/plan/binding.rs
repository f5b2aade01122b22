//! Whether what runs ends with the node's lease, as the record asks (FENCING.md, rule 12).
//!
//! To failover: the need of a lease is written down durably, the shim is armed, then it is told. To pinned:
//! the record says so first, as this replica has surely seen, then the shim is freed. So whenever the claim in
//! force says failover, whatever runs here is bound; and a replica that a power cut set back cannot undo it.

use holm_model::vm::{Availability, ObservedState, StopMode, Vm, WantPower};
use holm_model::{Epoch, Revision};
use holm_vmm::hypervisor::{Instance, InstanceState};

use super::{Report, Standing, Step, alive};

/// For a run that was begun before Holm knew leases.
const TOO_OLD: &str = "it was started by an earlier version of Holm, which knows no leases: it stays pinned \
    until it is stopped and started once";

/// The step that binds or frees it; where there is none, `next`, with what is to be told of it beside.
pub fn bound(
    on: Standing,
    vm: &Vm,
    epoch: Epoch,
    here: Option<&Instance>,
    next: impl FnOnce() -> Step,
) -> Step {
    let in_force = vm.claim.as_ref().map_or(Availability::Pinned, |claim| claim.availability);
    match (vm.spec.availability, in_force, here) {
        (Availability::Pinned, _, Some(instance)) => pinned(on, epoch, instance).unwrap_or_else(next),
        (Availability::Pinned, _, None) => next(),
        (Availability::Failover, Availability::Failover, here) => {
            here.and_then(|instance| failover(on, instance)).unwrap_or_else(next)
        }
        (Availability::Failover, Availability::Pinned, here) => becoming(on, vm, epoch, here, next),
    }
}

/// Pinned holds from the entry that says so; only a replica that has caught up knows that it is the latest.
fn pinned(on: Standing, epoch: Epoch, instance: &Instance) -> Option<Step> {
    if !on.caught_up {
        return None;
    }
    if alive(&instance.state) && instance.armed.is_some() {
        return Some(Step::Disarm);
    }
    instance.bound.then_some(Step::Bind { epoch, bound: false })
}

/// Failover is in force: nothing of it may run unbound. A run that is bound to another lease than the present one
/// is left to its shim, which ends it.
fn failover(on: Standing, instance: &Instance) -> Option<Step> {
    if !alive(&instance.state) || instance.armed.is_some() {
        return None;
    }
    match on.lease.id() {
        Some(lease) if instance.can_arm => Some(Step::Arm(lease)),
        _ if on.caught_up => Some(Step::Stop(StopMode::Force)),
        _ => None,
    }
}

/// Failover is asked for, and pinned in force until this node says that whatever runs is bound.
fn becoming(
    on: Standing,
    vm: &Vm,
    epoch: Epoch,
    here: Option<&Instance>,
    next: impl FnOnce() -> Step,
) -> Step {
    let asked = vm.recovery.availability_revision;
    let Some(instance) = here else { return told(vm, epoch, asked, None, next()) };
    if !instance.bound {
        return Step::Bind { epoch, bound: true };
    }
    if !alive(&instance.state) {
        return told(vm, epoch, asked, Some(instance), next());
    }
    match (instance.armed, on.lease.id()) {
        (Some(armed), Some(lease)) if armed == lease => told(vm, epoch, asked, Some(instance), next()),
        (None, Some(lease)) if instance.can_arm => Step::Arm(lease),
        (None, _) if !instance.can_arm => noted(vm, epoch, instance, next()),
        // Until there is a lease; or its shim ends it with the one that has ended.
        _ => next(),
    }
}

/// Says with the next report, or with one for its own sake, that it is bound.
fn told(vm: &Vm, epoch: Epoch, asked: Revision, here: Option<&Instance>, next: Step) -> Step {
    let armed_for = Some(asked);
    match next {
        Step::Report(report) => Step::Report(Report { armed_for, ..report }),
        Step::Nothing => match state_to_tell(vm, here) {
            Some((run, state)) => Step::Report(Report { epoch, run, state, armed_for, note: None }),
            None => Step::Nothing,
        },
        other => other,
    }
}

/// Says once that it cannot be bound.
fn noted(vm: &Vm, epoch: Epoch, instance: &Instance, next: Step) -> Step {
    let note = Some(TOO_OLD.to_owned());
    let known = vm.fault.as_ref().is_some_and(|fault| fault.message == TOO_OLD);
    match next {
        Step::Report(report) => Step::Report(Report { note, ..report }),
        Step::Nothing if !known => match state_to_tell(vm, Some(instance)) {
            Some((run, state)) => Step::Report(Report { epoch, run, state, armed_for: None, note }),
            None => Step::Nothing,
        },
        other => other,
    }
}

/// What can be said once more without moving the record. The end of a run cannot: it would count twice.
fn state_to_tell(vm: &Vm, here: Option<&Instance>) -> Option<(u64, ObservedState)> {
    match here.map(|instance| (instance.run, &instance.state)) {
        Some((run, InstanceState::Running)) => Some((run, ObservedState::Running)),
        Some((run, InstanceState::Paused)) => Some((run, ObservedState::Paused)),
        Some((run, InstanceState::Unresponsive { reason })) => {
            Some((run, ObservedState::Unknown { reason: reason.clone() }))
        }
        _ if vm.power.want == WantPower::Off => Some((vm.power.run, ObservedState::Stopped)),
        _ => None,
    }
}
