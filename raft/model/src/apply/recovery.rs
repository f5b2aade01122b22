//! How a VM is kept running: its policies, restarts after an end nobody asked for, and the way out of a step
//! that takes too long.

use super::{Cx, check_expected, invalid, not_found, wrong_state};
use crate::cluster_policy::FAILOVER_NODES_MIN;
use crate::command::{ResetVmState, RestartVm, SetVmPolicies, TaskOverdue};
use crate::limits;
use crate::reply::{Kind, Outcome, Reason};
use crate::vm::{
    Availability, DiskLoss, Fault, RESTART_PAUSE_MAX_MS, RESTART_PAUSE_MS, RESTART_WINDOW_MS, RESTARTS_MAX,
    RestartPolicy, START_DELAY_S_MAX, TaskState, Vm, VmSpec, VmStatus, WantPower,
};

impl Cx<'_> {
    pub(super) fn check_policies(&self, spec: &VmSpec) -> Result<(), Reason> {
        let policies = &spec.policies;
        if policies.start_delay_s > START_DELAY_S_MAX {
            let is = policies.start_delay_s;
            return Err(invalid("start_delay_s", format!("is {is}, must be at most {START_DELAY_S_MAX}")));
        }
        if policies.start_order.unsigned_abs() > limits::PRIORITY_MAX.unsigned_abs() {
            return Err(invalid("start_order", format!("must be within ±{}", limits::PRIORITY_MAX)));
        }
        if spec.availability == Availability::Pinned {
            return Ok(());
        }
        if self.state.nodes.len() < FAILOVER_NODES_MIN {
            let are = self.state.nodes.len();
            return Err(invalid(
                "availability",
                format!(
                    "`failover` needs at least {FAILOVER_NODES_MIN} nodes, so that a majority outlives any one of \
                     them; there are {are}"
                ),
            ));
        }
        if !spec.is_movable() {
            return Err(invalid(
                "disk_loss",
                "`availability: failover` with a local disk needs `disk_loss: recreate`: on another node the disk \
                 is written anew from the image, and what the guest wrote is lost",
            ));
        }
        if spec.node.is_some() {
            let node = spec.node.and_then(|node| self.state.nodes.get(&node));
            let node = node.map_or("one node", |node| node.name.as_str());
            return Err(invalid(
                "node",
                format!(
                    "a VM that was created for {node} cannot fail over; leave `node` out, or free the VM from it with \
                     `any_node` (`holm vm set NAME --any-node`)"
                ),
            ));
        }
        self.check_volume_locks(spec)
    }

    pub(super) fn set_vm_policies(&mut self, c: &SetVmPolicies) -> Result<Outcome, Reason> {
        let mut vm = self.vm(c.vm)?;
        check_expected(c.expected, vm.revision)?;
        if vm.recovery.vacate.is_some() && c.disk_loss == Some(DiskLoss::Refuse) {
            return Err(invalid(
                "disk_loss",
                "the VM is leaving its node and its disk with it; set it when it has",
            ));
        }
        let is_freed = c.any_node && vm.spec.node.take().is_some();
        let before = vm.spec.availability;
        let policies = &mut vm.spec.policies;
        policies.disk_loss = c.disk_loss.unwrap_or(policies.disk_loss);
        policies.restart_policy = c.restart_policy.unwrap_or(policies.restart_policy);
        policies.start_order = c.start_order.unwrap_or(policies.start_order);
        policies.start_delay_s = c.start_delay_s.unwrap_or(policies.start_delay_s);
        vm.spec.availability = c.availability.unwrap_or(before);
        self.check_policies(&vm.spec)?;
        let is_changed = vm.spec.availability != before;
        // One that waited for its node may now take another's room.
        let takes_room = is_freed && vm.waits() && self.knows(2);
        if is_changed && vm.spec.availability == Availability::Failover || takes_room {
            self.admit(vm.spec.availability, c.admitted)?;
        }
        if is_changed {
            vm.recovery.availability_revision = self.revision;
            // Pinned holds from this entry on; failover once its node says that it is armed (rule 12).
            if let Some(claim) = &mut vm.claim
                && vm.spec.availability == Availability::Pinned
            {
                claim.availability = Availability::Pinned;
            }
        }
        self.event(Kind::Vm, vm.id, &vm.name, "changed", "");
        self.put_vm(vm);
        Ok(Outcome::Vm(c.vm))
    }

    /// A run ended and nobody asked for it: true when the restart policy begins another.
    pub(super) fn restart_by_policy(&mut self, vm: &mut Vm, status: VmStatus, reason: &str) -> Restart {
        let wanted = match vm.spec.policies.restart_policy {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => status == VmStatus::Error,
            RestartPolicy::Never => false,
        };
        if !wanted {
            return Restart::No;
        }
        let recovery = &mut vm.recovery;
        let within = recovery
            .restarts_since
            .is_some_and(|since| self.at.0.saturating_sub(since.0) < RESTART_WINDOW_MS);
        if !within {
            (recovery.restarts, recovery.restarts_since) = (0, Some(self.at));
        }
        if recovery.restarts >= RESTARTS_MAX {
            let minutes = RESTART_WINDOW_MS / 60_000;
            return Restart::CrashLoop(format!(
                "crash loop: restarted {RESTARTS_MAX} times within {minutes} minutes; the last end: {reason}"
            ));
        }
        let pause = (RESTART_PAUSE_MS << recovery.restarts).min(RESTART_PAUSE_MAX_MS);
        recovery.restarts += 1;
        recovery.next_restart_at = Some(crate::id::Timestamp(self.at.0 + pause));
        vm.status = status;
        vm.task_state = Some(TaskState::Restarting);
        Restart::Yes(pause)
    }

    pub(super) fn restart_vm(&mut self, c: &RestartVm) -> Result<Outcome, Reason> {
        self.check_leadership(c.leadership)?;
        let mut vm = self.state.vms.get(&c.vm).cloned().ok_or_else(|| not_found(Kind::Vm, c.vm))?;
        let due = vm.task_state == Some(TaskState::Restarting)
            && vm.power.run == c.run
            && vm.power.want == WantPower::On;
        if !due {
            return Err(wrong_state(format!("VM `{}` is not to be restarted", vm.name)));
        }
        vm.power.run += 1;
        vm.task_state = Some(TaskState::PoweringOn);
        vm.recovery.next_restart_at = None;
        let message = format!("restart {} of {RESTARTS_MAX} by its policy", vm.recovery.restarts);
        self.event(Kind::Vm, vm.id, &vm.name, "restarting", message);
        self.put_vm(vm);
        Ok(Outcome::Vm(c.vm))
    }

    pub(super) fn task_overdue(&mut self, c: &TaskOverdue) -> Result<Outcome, Reason> {
        self.check_leadership(c.leadership)?;
        let mut vm = self.state.vms.get(&c.vm).cloned().ok_or_else(|| not_found(Kind::Vm, c.vm))?;
        if vm.task_state != Some(c.task_state) || vm.power.run != c.run || vm.claim.is_none() {
            return Err(wrong_state(format!("VM `{}` has moved on", vm.name)));
        }
        let node = vm.claim.as_ref().map(|claim| claim.node);
        let name =
            node.and_then(|node| self.state.nodes.get(&node)).map_or("its node", |node| node.name.as_str());
        let message = format!("{name} has not finished in time ({}); it goes on trying", step(c.task_state));
        vm.fault = Some(Fault { message: message.clone(), node, at: self.at });
        // What may still run is only ended by its node, and what it builds only it finishes or gives back.
        let stays = matches!(vm.status, VmStatus::Deleting | VmStatus::Build)
            || vm.recovery.vacate.is_some()
            || c.task_state == TaskState::PoweringOff;
        if !stays {
            vm.status = VmStatus::Error;
            vm.task_state = None;
        }
        self.event(Kind::Vm, vm.id, &vm.name, "overdue", message);
        self.put_vm(vm);
        Ok(Outcome::Vm(c.vm))
    }

    pub(super) fn reset_vm_state(&mut self, c: &ResetVmState) -> Result<Outcome, Reason> {
        let mut vm = self.vm(c.vm)?;
        check_expected(c.expected, vm.revision)?;
        if vm.status == VmStatus::Deleting {
            return Err(wrong_state(format!(
                "VM `{}` is being deleted, which its node finishes; if that machine is off for good, evacuate the VM",
                vm.name
            )));
        }
        if vm.claim.is_none() && vm.status == VmStatus::Build {
            return Err(wrong_state(format!(
                "VM `{}` waits for a host; delete it if it is not wanted",
                vm.name
            )));
        }
        if vm.status == VmStatus::Build {
            return Err(wrong_state(format!(
                "VM `{}` is being built, which its node finishes or gives back; delete it, or evacuate it if that \
                 machine is off",
                vm.name
            )));
        }
        if vm.task_state.is_none() && vm.status != VmStatus::Error {
            return Err(wrong_state(format!("VM `{}` is in no transitional state", vm.name)));
        }
        if vm.recovery.vacate.is_some() {
            return Err(wrong_state(format!("VM `{}` is leaving its node, which cannot be undone", vm.name)));
        }
        vm.status = VmStatus::Error;
        vm.task_state = None;
        vm.recovery.next_restart_at = None;
        // Whatever it was told before, its node says again how it is.
        vm.observed = None;
        self.event(Kind::Vm, vm.id, &vm.name, "reset", "its node's next report tells how it is");
        self.put_vm(vm);
        Ok(Outcome::Vm(c.vm))
    }
}

/// As users see it.
fn step(task_state: TaskState) -> &'static str {
    match task_state {
        TaskState::Scheduling => "scheduling",
        TaskState::Spawning => "spawning",
        TaskState::PoweringOn => "powering-on",
        TaskState::PoweringOff => "powering-off",
        TaskState::Rebooting => "rebooting",
        TaskState::Deleting => "deleting",
        TaskState::Restarting => "restarting",
        TaskState::Moving => "moving",
    }
}

/// What the restart policy says of a run that ended.
pub(super) enum Restart {
    No,
    /// After this pause, in milliseconds.
    Yes(u64),
    CrashLoop(String),
}
