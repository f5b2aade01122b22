//! Taking VMs from a node that may be dead, and letting it back: by a fence, which the leader proposes once
//! every lease must have ended (FENCING.md, rules 7, 8, 19, 20), or by an operator who knows that it is off.

use super::{Cx, check_expected, invalid, not_found, wrong_state};
use crate::command::{EvacuateVm, FenceNode, UnfenceNode};
use crate::feasible::may_be_fenced;
use crate::id::{NodeId, VmId};
use crate::node::{Fence, Node};
use crate::reply::{Kind, Outcome, Reason};
use crate::vm::{Fault, TaskState, Vm, VmStatus, WantPower};

impl Cx<'_> {
    pub(super) fn fence_node(&mut self, c: &FenceNode) -> Result<Outcome, Reason> {
        self.check_leadership(c.leadership)?;
        let mut node = self.state.nodes.get(&c.node).cloned().ok_or_else(|| not_found(Kind::Node, c.node))?;
        may_be_fenced(self.state, &node).map_err(wrong_state)?;
        node.fence = Some(Fence { at: self.at, revision: self.revision, lost: Default::default() });
        node.fenced_at = Some(self.at);
        node.up = false;
        node.up_changed_at = self.at;
        node.revision = self.revision;
        self.event(
            Kind::Node,
            c.node,
            &node.name,
            "fenced",
            "its leases have ended; its failover VMs go elsewhere",
        );
        self.state.nodes.insert(c.node, node);
        let lost = self.state.vms_on(c.node).filter(|vm| vm.fails_over());
        for id in lost.map(|vm| vm.id).collect::<Vec<_>>() {
            self.fail_over(id);
        }
        Ok(Outcome::Node(c.node))
    }

    /// What [`Plant::DownIsFenced`](crate::planted::Plant) does when a node is down.
    pub(super) fn take_from_down(&mut self, node: NodeId) {
        let held =
            self.state.vms_on(node).filter(|vm| vm.is_failover_in_force() && vm.power.want == WantPower::On);
        for id in held.map(|vm| vm.id).collect::<Vec<_>>() {
            self.fail_over(id);
        }
    }

    /// Takes a VM from its fenced node: from there on it waits for another, or is gone if that was asked for.
    fn fail_over(&mut self, id: VmId) {
        let mut vm = self.state.vms.get(&id).cloned().expect("the caller found it in the state");
        let node = self.lose_claim(&mut vm);
        if vm.status == VmStatus::Deleting {
            self.forget_vm(&vm);
            return;
        }
        let message = format!("its node `{}` did not answer and was fenced", node.name);
        vm.fault = Some(Fault { message: message.clone(), node: Some(node.id), at: self.at });
        self.wait_for_another(&mut vm, &message);
        let disk = if vm.spec.size.disk_gib > 0 { "; its disk is written anew from its image" } else { "" };
        self.event(Kind::Vm, id, &vm.name, "failing-over", format!("{message}{disk}"));
        self.put_vm(vm);
    }

    /// Ends the claim of a VM on a node that lost it, and remembers there what was lost.
    fn lose_claim(&mut self, vm: &mut Vm) -> Node {
        let claim = vm.claim.clone().expect("the caller found its claim");
        self.end_claim(vm);
        let mut node = self.state.nodes.get(&claim.node).cloned().expect("a claim is on a node that exists");
        if let Some(fence) = &mut node.fence {
            fence.lost.insert(vm.id, claim.epoch);
        }
        self.state.nodes.insert(node.id, node.clone());
        node
    }

    /// Whether the VM's node is fenced and its claim one that a fence frees.
    pub(super) fn is_lost(&self, vm: &Vm) -> bool {
        let fenced = |claim: &crate::vm::Claim| {
            self.state.nodes.get(&claim.node).is_some_and(|node| node.fence.is_some())
        };
        vm.is_failover_in_force() && vm.claim.as_ref().is_some_and(fenced)
    }

    /// A VM without a claim goes back to the queue, as if it were new; its run goes on counting.
    pub(super) fn reschedule(&mut self, vm: &mut Vm) {
        vm.status = VmStatus::Build;
        vm.task_state = Some(TaskState::Scheduling);
        vm.observed = None;
        vm.forget_failed_builds();
        vm.refusals.clear();
        vm.waiting_since = Some(self.at);
        self.state.waiting.insert(vm.id);
    }

    /// The same for one that lost its host, and for what reason; nobody may be there to ask again.
    pub(super) fn wait_for_another(&mut self, vm: &mut Vm, why: &str) {
        self.reschedule(vm);
        vm.recovery.failing_over = true;
        vm.recovery.lost_host = self.knows(2).then(|| why.to_owned());
    }

    /// Frees the claim of a failover VM that was off when its node was fenced.
    pub(super) fn take_from_fenced(&mut self, vm: &mut Vm) {
        if self.is_lost(vm) {
            self.lose_claim(vm);
        }
    }

    pub(super) fn unfence_node(&mut self, c: &UnfenceNode) -> Result<Outcome, Reason> {
        let mut node = self.state.nodes.get(&c.node).cloned().ok_or_else(|| not_found(Kind::Node, c.node))?;
        let current = node.report.as_ref().is_some_and(|report| report.boot_id == c.boot_id);
        if !current || node.fence.as_ref().is_none_or(|fence| fence.revision != c.fence) {
            return Err(Reason::StaleReport);
        }
        let lost = node.fence.take().map_or(0, |fence| fence.lost.len());
        node.revision = self.revision;
        let message = format!("it had lost {lost} VMs, found {} of them and runs none", c.found);
        self.event(Kind::Node, c.node, &node.name, "unfenced", message);
        self.state.nodes.insert(c.node, node);
        Ok(Outcome::Node(c.node))
    }

    pub(super) fn evacuate_vm(&mut self, c: &EvacuateVm) -> Result<Outcome, Reason> {
        let mut vm = self.vm(c.vm)?;
        check_expected(c.expected, vm.revision)?;
        if !c.confirm_node_off {
            return Err(invalid(
                "confirm_node_off",
                "must be true: state that the machine is switched off, or the VM could run twice",
            ));
        }
        let Some(claim) = vm.claim.clone() else {
            return Err(wrong_state(format!("VM `{}` is on no node", vm.name)));
        };
        let node = self.state.nodes.get(&claim.node).cloned().expect("a claim is on a node that exists");
        if node.up {
            return Err(wrong_state(format!("node `{}` is up; drain it instead", node.name)));
        }
        if vm.power.want == WantPower::On && self.knows(2) {
            self.admit(vm.spec.availability, c.admitted)?;
        }
        self.lose_claim(&mut vm);
        if vm.status == VmStatus::Deleting {
            self.forget_vm(&vm);
            return Ok(Outcome::Vm(c.vm));
        }
        let message = format!("evacuated from `{}`, which was stated to be off", node.name);
        vm.fault = Some(Fault { message: message.clone(), node: Some(node.id), at: self.at });
        if vm.spec.node == Some(node.id) {
            vm.spec.node = None;
        }
        if vm.power.want == WantPower::On {
            self.wait_for_another(&mut vm, &message);
        } else {
            vm.status = VmStatus::Shutoff;
            vm.task_state = None;
        }
        self.event(Kind::Vm, vm.id, &vm.name, "evacuated", message);
        self.put_vm(vm);
        Ok(Outcome::Vm(c.vm))
    }
}
