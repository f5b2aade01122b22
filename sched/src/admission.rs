//! What is judged by N+1 before it is let in, and what is said against it. Whoever proposes asks; apply takes the
//! judgement only while nothing else was admitted since (`holm-model`, `apply/admission.rs`).
//!
//! A command that brings VMs which are to fail over must leave N+1 holding. One that only takes room must leave none of
//! those without a place who had one: that there is too little already is not its fault.

use holm_model::policy::NPlusOne;
use holm_model::vm::{Availability, Vm, VmStatus, WantPower};
use holm_model::{Actor, Command, Reason, Revision, State, Timestamp, VmId};

use crate::n_plus_one::{n_plus_one, n_plus_one_after};

/// Whether this policy asks about such a command: one that warns, only of VMs that fail over.
pub fn is_judged(state: &State, policy: NPlusOne, command: &Command) -> bool {
    match policy {
        NPlusOne::Off => false,
        NPlusOne::Warn => brings_failover(state, command),
        NPlusOne::Refuse => brings_failover(state, command) || takes_room(state, command),
    }
}

/// What would no longer hold with a command of [`admitted_at`]. Quotas are left to apply: what they refuse now, they may
/// take when it comes to it.
///
/// # Errors
/// What apply would refuse it with. Then it was not judged.
pub fn objections(
    state: &State,
    at: Timestamp,
    actor: &Actor,
    command: &Command,
) -> Result<Vec<String>, Reason> {
    let unlimited = State { quotas: Default::default(), ..state.clone() };
    let after = n_plus_one_after(&unlimited, at, actor, command)?;
    let verdict = match after.verdict.holds() || brings_failover(state, command) {
        true => after.verdict,
        false => after.verdict.beyond(&n_plus_one(state)),
    };
    Ok(verdict.sentences(&after.state))
}

/// Whether there would be more VMs that fail over: one that is off does not.
pub fn brings_failover(state: &State, command: &Command) -> bool {
    match command {
        Command::CreateVm(vm) => vm.availability == Availability::Failover,
        Command::CreateVms(vms) => vms.items.iter().any(|vm| vm.availability == Availability::Failover),
        Command::SetVmPolicies(change) => {
            let vm = state.vms.get(&change.vm);
            change.availability == Some(Availability::Failover)
                && vm.is_some_and(|vm| vm.spec.availability != Availability::Failover)
        }
        Command::SetVmPower(power) => {
            let vm = state.vms.get(&power.vm).filter(|vm| vm.spec.availability == Availability::Failover);
            // One that waits in BUILD was let in when it was created, and apply asks nothing of its start.
            let let_in = |vm: &Vm| vm.claim.is_some() || vm.status == VmStatus::Build;
            let off = vm.is_some_and(|vm| vm.power.want == WantPower::Off || !let_in(vm));
            power.want == WantPower::On && !power.reboot && off
        }
        _ => false,
    }
}

/// Whether it takes room on a node that it did not take before.
fn takes_room(state: &State, command: &Command) -> bool {
    let vm = |id: &VmId| state.vms.get(id);
    match command {
        Command::CreateVm(_) | Command::CreateVms(_) | Command::MoveVms(_) => true,
        Command::SetVmPolicies(change) => {
            change.any_node && vm(&change.vm).is_some_and(|vm| vm.spec.node.is_some() && vm.waits())
        }
        Command::SetVmPower(power) => {
            let homeless = |vm: &Vm| vm.claim.is_none() && !vm.waits();
            power.want == WantPower::On && !power.reboot && vm(&power.vm).is_some_and(homeless)
        }
        Command::EvacuateVm(evacuated) => vm(&evacuated.vm).is_some_and(|vm| vm.power.want == WantPower::On),
        _ => false,
    }
}

/// The command, judged to hold at this revision; at 0 if it was not judged.
pub fn admitted_at(mut command: Command, judged: Revision) -> Command {
    let judged = Some(judged);
    match &mut command {
        Command::CreateVm(vm) => vm.admitted = judged,
        Command::CreateVms(vms) => vms.items.iter_mut().for_each(|vm| vm.admitted = judged),
        Command::SetVmPolicies(change) => change.admitted = judged,
        Command::SetVmPower(power) if power.want == WantPower::On => power.admitted = judged,
        Command::EvacuateVm(evacuated) => evacuated.admitted = judged,
        Command::MoveVms(moves) => moves.admitted = judged,
        _ => {}
    }
    command
}
