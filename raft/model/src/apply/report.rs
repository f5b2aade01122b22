//! What nodes say of their VMs. A report counts only if it comes from the node and epoch of the claim,
//! from the host's current boot, and is newer than the last one (FENCING.md, rule 3).

use super::recovery::Restart;
use super::{Cx, not_found};
use crate::command::{ReportVms, VmReport};
use crate::limits;
use crate::planted::{Plant, planted};
use crate::reply::{Kind, Outcome, Reason};
use crate::vm::{Availability, Fault, Observed, ObservedState, TaskState, Vm, VmStatus, WantPower};

impl Cx<'_> {
    pub(super) fn report_vms(&mut self, c: &ReportVms) -> Result<Outcome, Reason> {
        let node = self.state.nodes.get(&c.node).ok_or_else(|| not_found(Kind::Node, c.node))?;
        if node.report.as_ref().is_none_or(|report| report.boot_id != c.boot_id) {
            return Err(Reason::StaleReport);
        }
        for report in &c.reports {
            self.report_vm(c, report);
        }
        Ok(Outcome::Nothing)
    }

    fn report_vm(&mut self, c: &ReportVms, report: &VmReport) {
        let Some(mut vm) = self.state.vms.get(&report.vm).cloned() else { return };
        let ours = vm.claim.as_ref().is_some_and(|claim| claim.node == c.node && claim.epoch == report.epoch);
        let newer = match &vm.observed {
            Some(last) => last.boot_id != c.boot_id || c.sequence > last.sequence,
            None => true,
        };
        if !ours || !newer {
            return;
        }
        if planted(Plant::ClaimLater) && vm.observed.is_none() {
            self.claim_at_last(&vm);
        }
        let deleting = vm.status == VmStatus::Deleting;
        if planted(Plant::ResurrectDelete) && deleting && report.state == ObservedState::Running {
            (vm.status, vm.power.want) = (VmStatus::Active, WantPower::On);
        }
        let state = clip(&report.state);
        vm.observed = Some(Observed {
            boot_id: c.boot_id,
            sequence: c.sequence,
            run: report.run,
            state: state.clone(),
            at: self.at,
        });
        if report.armed_for == Some(vm.recovery.availability_revision)
            && vm.spec.availability == Availability::Failover
            && let Some(claim) = &mut vm.claim
        {
            claim.availability = Availability::Failover;
        }
        // A report about an earlier run says nothing about the one asked for.
        if vm.status != VmStatus::Deleting && report.run == vm.power.run {
            self.follow(&mut vm, c, state);
            if let Some(note) = &report.note {
                let message = limits::clip(note);
                vm.fault = Some(Fault { message, node: Some(c.node), at: self.at });
            }
        }
        self.put_vm(vm);
    }

    /// What [`Plant::ClaimLater`] left out.
    fn claim_at_last(&mut self, vm: &Vm) {
        let Some(claim) = &vm.claim else { return };
        if let Some(mut node) = self.state.nodes.get(&claim.node).cloned() {
            node.add_claim(&claim.resources, &claim.parts);
            self.state.nodes.insert(node.id, node);
        }
    }

    /// Moves the status to what the node reports of the run asked for.
    fn follow(&mut self, vm: &mut Vm, c: &ReportVms, state: ObservedState) {
        // It is on its way out; how its last run ends says nothing.
        if vm.recovery.vacate.is_some() || vm.task_state == Some(TaskState::Restarting) && !is_up(&state) {
            return;
        }
        let fault = |message: String| Some(Fault { message, node: Some(c.node), at: self.at });
        let before = (vm.status, vm.task_state);
        let (what, message) = match (state, vm.power.want) {
            (ObservedState::Progress { .. }, WantPower::On) => {
                if vm.task_state.is_none() {
                    vm.task_state = Some(TaskState::PoweringOn);
                }
                return;
            }
            (ObservedState::Progress { .. }, WantPower::Off) => return,
            (ObservedState::Running, WantPower::On) => {
                if vm.status == VmStatus::Build {
                    self.build_succeeded(c.node);
                }
                vm.fault = None;
                vm.forget_failed_builds();
                (vm.recovery.failing_over, vm.recovery.lost_host) = (false, None);
                vm.recovery.next_restart_at = None;
                settle(vm, VmStatus::Active);
                ("active", String::new())
            }
            (ObservedState::Paused, WantPower::On) => {
                vm.fault = None;
                settle(vm, VmStatus::Paused);
                ("paused", String::new())
            }
            // It still runs while it is being stopped.
            (ObservedState::Running | ObservedState::Paused, WantPower::Off) => return,
            // The run asked for is over, by the hand of somebody on the host.
            (ObservedState::Stopped, WantPower::On) => {
                let message = "it was stopped on its host".to_owned();
                vm.power.want = WantPower::Off;
                vm.fault = fault(message.clone());
                settle(vm, VmStatus::Shutoff);
                ("shutoff", message)
            }
            (ObservedState::Stopped, WantPower::Off) => {
                // An unasked-for end is reported once as such; the record keeps saying why.
                if vm.status != VmStatus::Error || vm.task_state.is_some() {
                    settle(vm, VmStatus::Shutoff);
                }
                ("shutoff", String::new())
            }
            (ObservedState::GuestOff | ObservedState::Failed { .. }, WantPower::Off)
                if vm.task_state != Some(TaskState::PoweringOff) =>
            {
                return;
            }
            (ObservedState::GuestOff | ObservedState::Failed { .. }, WantPower::Off) => {
                settle(vm, VmStatus::Shutoff);
                ("shutoff", String::new())
            }
            (ObservedState::GuestOff, WantPower::On) => {
                let message = "the guest powered itself off".to_owned();
                vm.fault = fault(message.clone());
                self.run_ended(vm, VmStatus::Shutoff, message)
            }
            (ObservedState::Failed { reason }, WantPower::On) => {
                vm.fault = fault(reason.clone());
                self.run_ended(vm, VmStatus::Error, reason)
            }
            (ObservedState::Unknown { reason }, _) => {
                vm.fault = fault(reason);
                return;
            }
        };
        if (vm.status, vm.task_state) != before {
            self.event(Kind::Vm, vm.id, &vm.name, what, message);
        }
    }
}

impl Cx<'_> {
    /// A run ended that should not have: its policy begins another, or the VM stays off.
    fn run_ended(&mut self, vm: &mut Vm, status: VmStatus, message: String) -> (&'static str, String) {
        let what = if status == VmStatus::Error { "error" } else { "shutoff" };
        match self.restart_by_policy(vm, status, &message) {
            Restart::Yes(pause_ms) => (what, format!("{message}; it is restarted in {} s", pause_ms / 1000)),
            Restart::No => {
                vm.power.want = WantPower::Off;
                settle(vm, status);
                (what, message)
            }
            Restart::CrashLoop(message) => {
                vm.power.want = WantPower::Off;
                if let Some(fault) = &mut vm.fault {
                    fault.message.clone_from(&message);
                }
                settle(vm, VmStatus::Error);
                ("error", message)
            }
        }
    }

    /// As in Nova, one success clears the failures that count against a host.
    fn build_succeeded(&mut self, node: crate::id::NodeId) {
        if let Some(mut node) = self.state.nodes.get(&node).cloned().filter(|node| node.failed_builds > 0) {
            node.failed_builds = 0;
            self.state.nodes.insert(node.id, node);
        }
    }
}

fn is_up(state: &ObservedState) -> bool {
    matches!(state, ObservedState::Running | ObservedState::Paused)
}

fn settle(vm: &mut Vm, status: VmStatus) {
    vm.status = status;
    vm.task_state = None;
}

fn clip(state: &ObservedState) -> ObservedState {
    match state {
        ObservedState::Progress { step } => ObservedState::Progress { step: limits::clip(step) },
        ObservedState::Failed { reason } => ObservedState::Failed { reason: limits::clip(reason) },
        ObservedState::Unknown { reason } => ObservedState::Unknown { reason: limits::clip(reason) },
        plain => plain.clone(),
    }
}
