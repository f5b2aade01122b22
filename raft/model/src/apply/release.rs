//! Where claims end: a node's own durable release (FENCING.md, rules 1 and 2).

use super::{Cx, wrong_state};
use crate::command::{ReleaseCause, Released};
use crate::limits;
use crate::planted::{Plant, planted};
use crate::quota::usage_of;
use crate::reply::{Kind, Outcome, Reason};
use crate::vm::{Fault, HostReason, MAX_BUILD_HOSTS, TaskState, Vm, VmStatus, WantPower};

impl Cx<'_> {
    pub(super) fn released(&mut self, c: &Released) -> Result<Outcome, Reason> {
        // A VM that is gone was released before: the node may repeat itself.
        let Some(mut vm) = self.state.vms.get(&c.vm).cloned() else { return Ok(Outcome::Nothing) };
        if !vm.claim.as_ref().is_some_and(|claim| claim.node == c.node && claim.epoch == c.epoch) {
            return Err(Reason::StaleReport);
        }
        match &c.cause {
            ReleaseCause::Deleted if vm.status != VmStatus::Deleting => {
                Err(wrong_state(format!("VM `{}` is not being deleted", vm.name)))
            }
            _ if vm.status == VmStatus::Deleting => {
                self.end_claim(&mut vm);
                self.forget_vm(&vm);
                Ok(Outcome::Vm(c.vm))
            }
            ReleaseCause::Deleted => Ok(Outcome::Nothing),
            ReleaseCause::Vacated if vm.recovery.vacate.is_none() => {
                Err(wrong_state(format!("VM `{}` was not to leave its node", vm.name)))
            }
            ReleaseCause::Vacated => {
                let vacate = vm.recovery.vacate.take();
                self.end_claim(&mut vm);
                self.vacated(vm, vacate);
                Ok(Outcome::Vm(c.vm))
            }
            // It has run, so its disk may hold something: nobody throws that away for a failed start.
            ReleaseCause::BuildFailed { .. } if vm.status != VmStatus::Build => {
                Err(wrong_state(format!("VM `{}` was built before, it can only be deleted", vm.name)))
            }
            ReleaseCause::BuildFailed { reason } => {
                self.end_claim(&mut vm);
                self.build_failed(vm, c, &limits::clip(reason));
                Ok(Outcome::Vm(c.vm))
            }
        }
    }

    /// Excludes the node; the VM waits for another, or goes to ERROR when there is none left to try. One that lost its
    /// node waits on: nobody may be there to ask again, and the leader begins another round after a pause. A node is
    /// blamed for what fails in the first round only: what fails there on so many is the VM's own fault.
    fn build_failed(&mut self, mut vm: Vm, c: &Released, reason: &str) {
        let message = format!("building it failed: {reason}");
        let blamed = vm.recovery.build_rounds == 0 || !self.knows(2);
        if let Some(mut node) = self.state.nodes.get(&c.node).cloned().filter(|_| blamed) {
            node.failed_builds = node.failed_builds.saturating_add(1);
            self.state.nodes.insert(c.node, node);
        }
        vm.excluded.push(HostReason { node: c.node, by: "build".to_owned(), message: reason.to_owned() });
        vm.fault = Some(Fault { message: message.clone(), node: Some(c.node), at: self.at });
        vm.observed = None;
        let hosts = MAX_BUILD_HOSTS.min(self.state.nodes.len());
        let exhausted = vm.excluded.len() >= hosts || vm.spec.node == Some(c.node);
        let waits_on = vm.recovery.failing_over && self.knows(1);
        if exhausted && !waits_on || vm.power.want == WantPower::Off {
            vm.status = VmStatus::Error;
            vm.task_state = None;
            self.event(Kind::Vm, vm.id, &vm.name, "error", message);
        } else {
            vm.task_state = Some(TaskState::Scheduling);
            vm.waiting_since = Some(self.at);
            self.state.waiting.insert(vm.id);
            self.event(Kind::Vm, vm.id, &vm.name, "rescheduling", message);
        }
        self.put_vm(vm);
    }

    /// Takes the claim away from VM and node, and with it what was to happen there. The caller stores the VM.
    pub(super) fn end_claim(&mut self, vm: &mut Vm) {
        let Some(claim) = vm.claim.take() else { return };
        vm.recovery.vacate = None;
        vm.recovery.next_restart_at = None;
        if vm.recovery.stopped_for.take().is_some() && vm.status != VmStatus::Deleting {
            // Its owner wanted it on; the drain that stopped it is over for it.
            vm.power.want = WantPower::On;
            vm.power.run += 1;
        }
        let mut node = self.state.nodes.get(&claim.node).cloned().expect("a claim is on a node that exists");
        let never_added = planted(Plant::ClaimLater) && vm.observed.is_none();
        if !never_added && !planted(Plant::LeakClaim) {
            node.end_claim(&claim.resources, &claim.parts);
        }
        node.compare_inventory(self.at);
        self.state.nodes.insert(node.id, node);
        let mut on_node =
            self.state.vms_by_node.get(&claim.node).cloned().expect("a claim is listed under its node");
        on_node.remove(&vm.id);
        if on_node.is_empty() {
            self.state.vms_by_node.remove(&claim.node);
        } else {
            self.state.vms_by_node.insert(claim.node, on_node);
        }
    }

    /// Removes the record of a VM that holds no claim.
    pub(super) fn forget_vm(&mut self, vm: &Vm) {
        debug_assert!(vm.claim.is_none(), "a claim outlives its VM");
        let before = self.state.vms.remove(&vm.id);
        if let Some(building) = before.as_ref().and_then(Vm::building) {
            self.state.building.remove(&building);
        }
        self.state.move_seat(before.as_ref().and_then(Vm::seat), None);
        self.state.vm_names.remove(&(vm.project.clone(), vm.name.clone()));
        self.state.waiting.remove(&vm.id);
        self.leave_group(vm);
        self.free_quota(&vm.project, &usage_of(&vm.spec));
        self.event(Kind::Vm, vm.id, &vm.name, "deleted", "");
    }

    pub(super) fn put_vm(&mut self, mut vm: Vm) {
        vm.updated_at = self.at;
        vm.revision = self.revision;
        let task_before = self.state.vms.get(&vm.id).and_then(|before| before.task_state);
        if task_before != vm.task_state || vm.recovery.task_since.is_none() {
            vm.recovery.task_since = vm.task_state.map(|_| self.at);
        }
        vm.batch = vm.batch.filter(|_| self.state.waiting.contains(&vm.id));
        let (building, seat) = (vm.building(), vm.seat());
        let before = self.state.vms.insert(vm.id, vm);
        self.state.move_seat(before.as_ref().and_then(Vm::seat), seat);
        let before = before.as_ref().and_then(Vm::building);
        if before == building {
            return;
        }
        if let Some(before) = before {
            self.state.building.remove(&before);
        }
        if let Some(building) = building {
            self.state.building.insert(building);
        }
    }
}
