//! Whether a run is to begin, to end, or only to be told of. The restart policy is the leader's: an end that
//! nobody asked for is told once, and what follows is the record's next run.

use holm_model::Epoch;
use holm_model::limits;
use holm_model::planted::{Plant, planted};
use holm_model::vm::{ObservedState, StopMode, TaskState, Vm, VmStatus};
use holm_vmm::hypervisor::{ExitCause, Instance, InstanceState};

use super::{NOT_ITS_TURN, Report, Standing, Step, alive, lags, needs_lease};

/// The record wants it on.
pub fn on(on: Standing, vm: &Vm, epoch: Epoch, here: Option<&Instance>) -> Step {
    let run = vm.power.run;
    let Some(instance) = here else { return start(on, vm, epoch, None) };
    if lags(instance.run > run) {
        return Step::Wait("the replica lags");
    }
    let begin = || start(on, vm, epoch, Some(instance));
    let report = |state| report(on, vm, epoch, instance.run, state);
    match &instance.state {
        InstanceState::Prepared => begin(),
        InstanceState::Running | InstanceState::Paused | InstanceState::Unresponsive { .. }
            if instance.run < run =>
        {
            Step::Stop(vm.power.stop)
        }
        InstanceState::Ended(_) if instance.run < run => begin(),
        InstanceState::Running if !on.caught_up && planted(Plant::RestartTouchesVms) => {
            Step::Stop(StopMode::Force)
        }
        InstanceState::Running => report(ObservedState::Running),
        InstanceState::Paused => report(ObservedState::Paused),
        InstanceState::Unresponsive { reason } => report(ObservedState::Unknown { reason: reason.clone() }),
        // Lost with its host, or with its lease: nothing is wrong with it, so the same run begins again.
        InstanceState::Ended(ExitCause::HostLost | ExitCause::LeaseEnded) => begin(),
        // Powered off with the host, which is up again.
        InstanceState::Ended(ExitCause::Requested) if instance.boot_id != Some(on.boot) => begin(),
        InstanceState::Ended(ExitCause::Requested) if on.held => Step::Wait("the host is going down"),
        InstanceState::Ended(ExitCause::Requested) if on.allowed_again => begin(),
        // By a stop this replica has not seen, or by hand; the record knows which.
        InstanceState::Ended(ExitCause::Requested) => report(ObservedState::Stopped),
        InstanceState::Ended(ExitCause::GuestOff) => report(ObservedState::GuestOff),
        // Never became ACTIVE: another host may do better.
        InstanceState::Ended(ExitCause::Failed { reason }) if vm.status == VmStatus::Build => {
            Step::GiveUp { epoch, run, reason: reason.clone() }
        }
        InstanceState::Ended(ExitCause::Failed { reason }) => {
            // As it is recorded, which is what the next look compares with.
            report(ObservedState::Failed { reason: limits::clip(reason) })
        }
    }
}

/// Begins the record's run, if everything allows it; `here` is what is left of it.
fn start(on: Standing, vm: &Vm, epoch: Epoch, here: Option<&Instance>) -> Step {
    let run = vm.power.run;
    if on.removed {
        return Step::Wait("this node was removed from the cluster");
    }
    if on.held {
        return Step::Wait("the guests of this host are held off for its shutdown");
    }
    if needs_lease(vm) && !planted(Plant::StartWithoutLease) {
        if on.fenced {
            return Step::Wait("this node is fenced and starts no failover VM");
        }
        if !on.lease.is_ready() {
            return Step::Wait("a failover VM starts only under a lease, and with all the lease has seen");
        }
    }
    let Some(here) = here else { return Step::Start { epoch, run, confirm: true } };
    if !on.caught_up {
        if !on.waited {
            return Step::Wait("a quorum is waited for before starting what was here");
        }
        if here.bound && !needs_lease(vm) {
            // The record is older than what this node knew: it may run elsewhere by now.
            return Step::Wait("a quorum is waited for: it may have been failed over");
        }
    }
    let host_was_down = here.run == run && (here.boot_id != Some(on.boot) || on.allowed_again);
    if host_was_down && !on.turn {
        return Step::Wait(NOT_ITS_TURN);
    }
    Step::Start { epoch, run, confirm: false }
}

/// The record wants it off.
pub fn off(on: Standing, vm: &Vm, epoch: Epoch, here: Option<&Instance>) -> Step {
    match here.map(|instance| &instance.state) {
        // A later run than the record's: it was started by an entry this replica has not seen.
        _ if lags(here.is_some_and(|instance| instance.run > vm.power.run)) => Step::Wait("the replica lags"),
        Some(state) if alive(state) => Step::Stop(vm.power.stop),
        // The record already says how it ended.
        _ if vm.task_state.is_none() && vm.observed.as_ref().is_some_and(|seen| is_over(&seen.state)) => {
            Step::Nothing
        }
        _ => report(on, vm, epoch, vm.power.run, ObservedState::Stopped),
    }
}

fn is_over(told: &ObservedState) -> bool {
    matches!(told, ObservedState::Stopped | ObservedState::GuestOff | ObservedState::Failed { .. })
}

/// A report, unless the record says the same already.
pub fn report(on: Standing, vm: &Vm, epoch: Epoch, run: u64, state: ObservedState) -> Step {
    let known = vm.observed.as_ref().is_some_and(|observed| {
        observed.boot_id == on.boot && observed.run == run && observed.state == state
    });
    // The record asks for something else than it was told before: say it again. Where its policy will begin
    // another run, nothing is asked of this one; and what is unknown moves no record, however often it is said.
    let settled = matches!(vm.task_state, None | Some(TaskState::Restarting))
        || run != vm.power.run
        || matches!(state, ObservedState::Unknown { .. });
    if known && settled {
        return Step::Nothing;
    }
    Step::Report(Report { epoch, run, state, armed_for: None, note: None })
}
