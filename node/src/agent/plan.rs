//! What to do next about one VM, from the record and what was observed. Pure: the whole policy of the
//! agent is this function, and its tests are a table.
//!
//! The rules are FENCING.md's: a released epoch never starts (2), an older epoch is ended and a newer
//! one waited for (3), a failover VM starts only under a lease that lives (11) and is bound to it before
//! anybody is told so (12), a pinned VM starts without a quorum only where it already was (13), disks go
//! only after the applied end of their epoch's claim (14).

mod binding;
mod power;

use holm_model::planted::{Plant, planted};
use holm_model::vm::{Availability, ObservedState, StopMode, Vm, VmStatus, WantPower};
use holm_model::{BootId, ClusterId, Epoch, NodeId, Revision};
use holm_vmm::hypervisor::{ExitCause, Instance, InstanceState, Observation};
use holm_vmm::lease::LeaseId;

use crate::lease;

/// One step. The worker performs it, observes again and asks again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing to do until the record or the host changes.
    Nothing,
    /// Nothing may be done yet; ask again later.
    Wait(&'static str),
    /// Tell the cluster.
    Report(Report),
    /// Begin a run. `confirm`: only after a linearizable read still says so.
    Start { epoch: Epoch, run: u64, confirm: bool },
    /// End the run.
    Stop(StopMode),
    /// Write down whether the epoch may run under a lease only.
    Bind { epoch: Epoch, bound: bool },
    /// End the run with its lease, since its shim does not.
    Enforce,
    /// From here on the run ends with the lease.
    Arm(LeaseId),
    /// The run needs no lease any more.
    Disarm,
    /// Mark the epoch released, durably; what follows depends on what the record says then.
    Release(Epoch),
    /// The same, for a build that failed: only after a linearizable read still says that it never ran.
    GiveUp { epoch: Epoch, run: u64, reason: String },
    /// The epoch is marked: delete its disks and give the claim back as deleted.
    FinishDelete(Epoch),
    /// The epoch is marked: give the claim back, the VM has left. Its disk goes once that is applied.
    FinishVacate(Epoch),
    /// The epoch is marked: give the claim back, it could not be built here.
    GiveBack { epoch: Epoch, reason: String },
    /// Nothing of this VM belongs here any more: remove what is left.
    Forget,
}

/// What is told of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub epoch: Epoch,
    pub run: u64,
    pub state: ObservedState,
    /// Whatever runs of it is bound to the node's lease, as the availability of that revision asks.
    pub armed_for: Option<Revision>,
    /// What is not as asked although it runs.
    pub note: Option<String>,
}

/// What the plan may rely on besides record and observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub me: NodeId,
    pub cluster: ClusterId,
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
    /// The run that ended was ended for such a shutdown, which did not come.
    pub allowed_again: bool,
    /// The record of this node says that it is fenced.
    pub fenced: bool,
    /// What the lease of this node allows, with the replica the record was read from.
    pub lease: lease::Standing,
    /// What runs is bound to a lease that ended a while ago.
    pub overdue: bool,
    /// It is this VM's turn among those that start because the host was down.
    pub turn: bool,
}

/// Others go first; asked again soon.
pub const NOT_ITS_TURN: &str = "others of this host start first";

/// Decides the next step for one VM; `vm` is its record, if there is one.
pub fn plan(on: Standing, vm: Option<&Vm>, observed: &Observation) -> Step {
    let here = match observed {
        Observation::Unknown { .. } => return Step::Wait("what is here cannot be told"),
        Observation::Absent => None,
        Observation::Known(instance) => Some(instance),
    };
    let ours = vm.and_then(|vm| vm.claim.as_ref().map(|claim| (vm, claim)).filter(|(_, c)| c.node == on.me));
    // Its epochs are another cluster's, and say nothing here.
    if here.is_some_and(|instance| is_foreign(on.cluster, instance)) {
        return match ours {
            Some(_) => Step::Wait("a VM of another cluster is where this one belongs"),
            None => Step::Nothing,
        };
    }
    match (ours, here) {
        (Some((_, claim)), Some(instance)) if lags(instance.epoch > claim.epoch) => {
            Step::Wait("the replica lags")
        }
        (Some((_, claim)), Some(instance)) if instance.epoch < claim.epoch => clean_up(instance),
        (Some((vm, claim)), here) => converge(on, vm, claim.epoch, here),
        (None, None) => Step::Nothing,
        (None, Some(instance)) if lags(instance.epoch.0 > on.applied) => Step::Wait("the replica lags"),
        (None, Some(instance)) => clean_up(instance),
    }
}

/// Whether another cluster placed what is here, so that this one must leave it alone.
pub fn is_foreign(cluster: ClusterId, instance: &Instance) -> bool {
    instance.cluster.is_some_and(|placed_by| placed_by != cluster)
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
    if running && on.overdue {
        return Step::Enforce;
    }
    if vm.status == VmStatus::Deleting {
        return match (running, released) {
            (true, _) => Step::Stop(StopMode::Force),
            (false, false) => Step::Release(epoch),
            (false, true) => Step::FinishDelete(epoch),
        };
    }
    if let Some(vacate) = &vm.recovery.vacate {
        return match (running, released) {
            (true, _) => Step::Stop(vacate.stop),
            (false, false) => Step::Release(epoch),
            (false, true) => Step::FinishVacate(epoch),
        };
    }
    if released {
        // It cannot be: whoever marks it, and whoever starts it, looks under one lock. If it is, it must not stay.
        return if running { Step::Stop(StopMode::Force) } else { given_back(on, vm, epoch, here) };
    }
    let next = || match vm.power.want {
        WantPower::On => power::on(on, vm, epoch, here),
        WantPower::Off => power::off(on, vm, epoch, here),
    };
    binding::bound(on, vm, epoch, here, next)
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
    power::report(on, vm, epoch, vm.power.run, ObservedState::Failed { reason })
}

/// Whether it may run under a lease only: asked for, or in force.
pub fn needs_lease(vm: &Vm) -> bool {
    let in_force = vm.claim.as_ref().map_or(Availability::Pinned, |claim| claim.availability);
    vm.spec.availability == Availability::Failover || in_force == Availability::Failover
}

/// The host has seen what the record does not know yet: nothing follows from such a record.
fn lags(ahead: bool) -> bool {
    ahead && !planted(Plant::TrustLaggingReplica)
}

/// Whether a VMM is there.
pub fn alive(state: &InstanceState) -> bool {
    match state {
        InstanceState::Running | InstanceState::Paused | InstanceState::Unresponsive { .. } => true,
        InstanceState::Prepared | InstanceState::Ended(_) => false,
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
pub(super) mod tests;
