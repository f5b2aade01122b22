//! What to do next about one VM, from the record and what was observed. Pure: the whole policy of the
//! agent is this function, and its tests are a table.
//!
//! The rules are FENCING.md's: a released epoch never starts (2), an older epoch is ended and a newer
//! one waited for (3), a pinned VM starts without a quorum only where it already was (13), disks go only
//! after the applied end of their epoch's claim (14).

use holm_model::planted::{Plant, planted};
use holm_model::vm::{ObservedState, StopMode, Vm, VmStatus, WantPower};
use holm_model::{BootId, Epoch, NodeId, Revision};
use holm_vmm::hypervisor::{ExitCause, Instance, InstanceState, Observation};

/// One step. The worker performs it, observes again and asks again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing to do until the record or the host changes.
    Nothing,
    /// Nothing may be done yet; ask again later.
    Wait(&'static str),
    /// Tell the cluster.
    Report { epoch: Epoch, run: u64, state: ObservedState },
    /// Begin a run. `confirm`: only after a linearizable read still says so.
    Start { epoch: Epoch, run: u64, confirm: bool },
    /// End the run.
    Stop(StopMode),
    /// Mark the epoch released, durably; what follows depends on what the record says then.
    Release(Epoch),
    /// The same, for a build that failed: only after a linearizable read still says that it never ran.
    GiveUp { epoch: Epoch, run: u64, reason: String },
    /// The epoch is marked: delete its disks and give the claim back as deleted.
    FinishDelete(Epoch),
    /// The epoch is marked: give the claim back, it could not be built here.
    GiveBack { epoch: Epoch, reason: String },
    /// Nothing of this VM belongs here any more: remove what is left.
    Forget,
}

/// What the plan may rely on besides record and observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub me: NodeId,
    /// This host's current boot.
    pub boot: BootId,
    /// Revision of the replica the record was read from.
    pub applied: Revision,
    /// Since the daemon started, a linearizable read has succeeded: the replica has caught up.
    pub caught_up: bool,
    /// The daemon has waited long enough for a quorum to start what it already had.
    pub waited: bool,
    /// The cluster said that this node is no longer a member: nothing may start.
    pub removed: bool,
    /// The guests of this host were powered off for its shutdown: nothing may start.
    pub held: bool,
}

/// Decides the next step for one VM; `vm` is its record, if there is one.
pub fn plan(on: Standing, vm: Option<&Vm>, observed: &Observation) -> Step {
    let here = match observed {
        Observation::Unknown { .. } => return Step::Wait("what is here cannot be told"),
        Observation::Absent => None,
        Observation::Known(instance) => Some(instance),
    };
    let claim = vm.and_then(|vm| vm.claim.as_ref().map(|claim| (vm, claim)));
    match (claim, here) {
        (Some((vm, claim)), here) if claim.node == on.me => match here {
            Some(instance) if lags(instance.epoch > claim.epoch) => Step::Wait("the replica lags"),
            Some(instance) if instance.epoch < claim.epoch => clean_up(instance),
            here => converge(on, vm, claim.epoch, here),
        },
        (_, None) => Step::Nothing,
        (_, Some(instance)) if lags(instance.epoch.0 > on.applied) => Step::Wait("the replica lags"),
        (_, Some(instance)) => clean_up(instance),
    }
}

/// The claim of what is here has ended, and the replica has seen it end.
fn clean_up(instance: &Instance) -> Step {
    if alive(&instance.state) {
        Step::Stop(StopMode::Force)
    } else if !instance.released {
        Step::Release(instance.epoch)
    } else {
        Step::Forget
    }
}

/// The claim is ours: make it so.
fn converge(on: Standing, vm: &Vm, epoch: Epoch, here: Option<&Instance>) -> Step {
    let running = here.is_some_and(|instance| alive(&instance.state));
    let released = here.is_some_and(|instance| instance.released);
    if vm.status == VmStatus::Deleting {
        return match (running, released) {
            (true, _) => Step::Stop(StopMode::Force),
            (false, false) => Step::Release(epoch),
            (false, true) => Step::FinishDelete(epoch),
        };
    }
    if released {
        return given_back(on, vm, epoch, here);
    }
    match vm.power.want {
        WantPower::On => power_on(on, vm, epoch, here),
        WantPower::Off => power_off(on, vm, epoch, here),
    }
}

/// Marked before the proposal was known to be applied: say it again. A VM that has run since keeps its disk
/// and is told as failed, since a released epoch never starts.
fn given_back(on: Standing, vm: &Vm, epoch: Epoch, here: Option<&Instance>) -> Step {
    if vm.status == VmStatus::Build {
        let reason = match here.map(|instance| &instance.state) {
            Some(InstanceState::Ended(ExitCause::Failed { reason })) => reason.clone(),
            _ => "it could not be built, and the daemon was restarted since".to_owned(),
        };
        return Step::GiveBack { epoch, reason };
    }
    if vm.power.want == WantPower::Off {
        return Step::Nothing;
    }
    let reason =
        "its host gave this placement back; its disk is still there, but it cannot start again".to_owned();
    report(on, vm, epoch, vm.power.run, ObservedState::Failed { reason })
}

fn power_on(on: Standing, vm: &Vm, epoch: Epoch, here: Option<&Instance>) -> Step {
    let run = vm.power.run;
    let start = |here: bool| match (on.removed, here, on.caught_up, on.waited) {
        (true, ..) => Step::Wait("this node was removed from the cluster"),
        _ if on.held => Step::Wait("the guests of this host are held off for its shutdown"),
        (_, true, true, _) | (_, true, _, true) => Step::Start { epoch, run, confirm: false },
        (_, true, false, false) => Step::Wait("a quorum is waited for before starting what was here"),
        (_, false, ..) => Step::Start { epoch, run, confirm: true },
    };
    let Some(instance) = here else { return start(false) };
    if lags(instance.run > run) {
        return Step::Wait("the replica lags");
    }
    let report = |state| report(on, vm, epoch, instance.run, state);
    match &instance.state {
        InstanceState::Prepared => start(true),
        InstanceState::Running | InstanceState::Paused | InstanceState::Unresponsive { .. }
            if instance.run < run =>
        {
            Step::Stop(vm.power.stop)
        }
        InstanceState::Ended(_) if instance.run < run => start(true),
        InstanceState::Running if !on.caught_up && planted(Plant::RestartTouchesVms) => {
            Step::Stop(StopMode::Force)
        }
        InstanceState::Running => report(ObservedState::Running),
        InstanceState::Paused => report(ObservedState::Paused),
        InstanceState::Unresponsive { reason } => report(ObservedState::Unknown { reason: reason.clone() }),
        // Lost with its host, or with its lease: it begins again, under a lease that lives.
        InstanceState::Ended(ExitCause::HostLost | ExitCause::LeaseEnded) => start(true),
        // Powered off with the host, which is up again.
        InstanceState::Ended(ExitCause::Requested) if instance.boot_id != Some(on.boot) => start(true),
        InstanceState::Ended(ExitCause::Requested) if on.held => Step::Wait("the host is going down"),
        // By a stop this replica has not seen, or by hand; the record knows which.
        InstanceState::Ended(ExitCause::Requested) => report(ObservedState::Stopped),
        InstanceState::Ended(ExitCause::GuestOff) => report(ObservedState::GuestOff),
        // Never became ACTIVE: another host may do better.
        InstanceState::Ended(ExitCause::Failed { reason }) if vm.status == VmStatus::Build => {
            Step::GiveUp { epoch, run, reason: reason.clone() }
        }
        InstanceState::Ended(ExitCause::Failed { reason }) => {
            report(ObservedState::Failed { reason: reason.clone() })
        }
    }
}

fn power_off(on: Standing, vm: &Vm, epoch: Epoch, here: Option<&Instance>) -> Step {
    match here.map(|instance| &instance.state) {
        // A later run than the record's: it was started by an entry this replica has not seen.
        _ if lags(here.is_some_and(|instance| instance.run > vm.power.run)) => Step::Wait("the replica lags"),
        Some(state) if alive(state) => Step::Stop(vm.power.stop),
        // The record already says how it ended.
        _ if vm.task_state.is_none() => Step::Nothing,
        _ => report(on, vm, epoch, vm.power.run, ObservedState::Stopped),
    }
}

/// A report, unless the record says the same already.
fn report(on: Standing, vm: &Vm, epoch: Epoch, run: u64, state: ObservedState) -> Step {
    let known = vm.observed.as_ref().is_some_and(|observed| {
        observed.boot_id == on.boot && observed.run == run && observed.state == state
    });
    // The record asks for something else than it was told before: say it again.
    let settled = vm.task_state.is_none() || run != vm.power.run;
    if known && settled { Step::Nothing } else { Step::Report { epoch, run, state } }
}

/// The host has seen what the record does not know yet: nothing follows from such a record.
fn lags(ahead: bool) -> bool {
    ahead && !planted(Plant::TrustLaggingReplica)
}

fn alive(state: &InstanceState) -> bool {
    match state {
        InstanceState::Running | InstanceState::Paused | InstanceState::Unresponsive { .. } => true,
        InstanceState::Prepared | InstanceState::Ended(_) => false,
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
