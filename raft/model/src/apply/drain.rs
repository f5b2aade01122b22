//! Emptying a node: drain, maintenance, and VMs that leave their node to be placed on another.

use super::{Cx, check_expected, invalid, not_found, wrong_state};
use crate::command::{DrainRequest, SetNodeDrain, SetNodeMaintenance, StopForDrain, VacateVms};
use crate::id::{NodeId, VmId};
use crate::limits;
use crate::node::{Drain, Maintenance, Node};
use crate::reply::{Kind, Outcome, Reason};
use crate::vm::{StopMode, TaskState, Vacate, Vm, VmStatus, WantPower};

impl Cx<'_> {
    pub(super) fn set_node_drain(&mut self, c: &SetNodeDrain) -> Result<Outcome, Reason> {
        let mut node = self.state.nodes.get(&c.node).cloned().ok_or_else(|| not_found(Kind::Node, c.node))?;
        check_expected(c.expected, node.revision)?;
        match &c.drain {
            Some(request) => {
                check_request(request)?;
                self.begin_drain(&mut node, request);
            }
            None if node.drain.is_none() => {
                return Err(wrong_state(format!("node `{}` is not being drained", node.name)));
            }
            None => {
                node.drain = None;
                self.event(Kind::Node, c.node, &node.name, "drain-cancelled", "it stays cordoned");
            }
        }
        node.revision = self.revision;
        self.state.nodes.insert(c.node, node);
        Ok(Outcome::Node(c.node))
    }

    fn begin_drain(&mut self, node: &mut Node, request: &DrainRequest) {
        node.drain = Some(Drain {
            since: node.drain.map_or(self.at, |drain| drain.since),
            stop_timeout_s: request.stop_timeout_s,
            pinned: request.pinned,
        });
        if node.enabled {
            node.enabled = false;
            node.disabled_reason = Some("draining".to_owned());
        }
        self.event(Kind::Node, node.id, &node.name, "draining", "");
    }

    pub(super) fn set_node_maintenance(&mut self, c: &SetNodeMaintenance) -> Result<Outcome, Reason> {
        let mut node = self.state.nodes.get(&c.node).cloned().ok_or_else(|| not_found(Kind::Node, c.node))?;
        check_expected(c.expected, node.revision)?;
        if let Some(reason) = &c.reason {
            limits::text("reason", reason, limits::MESSAGE_MAX)?;
        }
        if !c.on {
            if c.drain.is_some() || c.reason.is_some() {
                return Err(invalid("reason", "and `drain` go with `on: true` only"));
            }
            if node.maintenance.take().is_none() {
                return Err(wrong_state(format!("node `{}` is not in maintenance", node.name)));
            }
            node.revision = self.revision;
            self.event(Kind::Node, c.node, &node.name, "maintenance-ended", "");
            self.state.nodes.insert(c.node, node);
            self.open_again(c.node);
            return Ok(Outcome::Node(c.node));
        }
        if let Some(request) = &c.drain {
            check_request(request)?;
            self.begin_drain(&mut node, request);
        }
        let since = node.maintenance.as_ref().map_or(self.at, |maintenance| maintenance.since);
        node.maintenance = Some(Maintenance { since, reason: c.reason.clone() });
        node.enabled = false;
        node.disabled_reason = Some(match &c.reason {
            Some(reason) => format!("in maintenance: {reason}"),
            None => "in maintenance".to_owned(),
        });
        node.revision = self.revision;
        self.event(Kind::Node, c.node, &node.name, "maintenance-began", c.reason.clone().unwrap_or_default());
        self.state.nodes.insert(c.node, node);
        Ok(Outcome::Node(c.node))
    }

    /// The node takes VMs again: its drain is over, and the VMs that drain stopped are started.
    pub(super) fn open_again(&mut self, id: NodeId) {
        let Some(mut node) = self.state.nodes.get(&id).cloned() else { return };
        node.drain = None;
        node.enabled = true;
        node.disabled_reason = None;
        self.state.nodes.insert(id, node);
        let stopped: Vec<Vm> =
            self.state.vms_on(id).filter(|vm| vm.recovery.stopped_for == Some(id)).cloned().collect();
        for mut vm in stopped {
            vm.recovery.stopped_for = None;
            if vm.power.want == WantPower::Off && vm.status != VmStatus::Deleting {
                vm.power.want = WantPower::On;
                vm.power.run += 1;
                vm.task_state = Some(TaskState::PoweringOn);
                vm.fault = None;
                self.event(Kind::Vm, vm.id, &vm.name, "starting", "its node is open again");
            }
            self.put_vm(vm);
        }
    }

    pub(super) fn stop_for_drain(&mut self, c: &StopForDrain) -> Result<Outcome, Reason> {
        self.check_leadership(c.leadership)?;
        for id in &c.vms {
            let Some(mut vm) = self.state.vms.get(id).cloned() else { continue };
            let Some(node) = vm.claim.as_ref().and_then(|claim| self.state.nodes.get(&claim.node)) else {
                continue;
            };
            let (node, Some(drain)) = (node.id, node.drain) else { continue };
            if vm.power.want == WantPower::Off || vm.status == VmStatus::Deleting {
                continue;
            }
            vm.power.want = WantPower::Off;
            vm.power.stop = StopMode::Graceful { timeout_s: drain.stop_timeout_s };
            vm.task_state = Some(TaskState::PoweringOff);
            vm.recovery.stopped_for = Some(node);
            vm.recovery.next_restart_at = None;
            self.event(Kind::Vm, vm.id, &vm.name, "stopping", "its node is being drained");
            self.put_vm(vm);
        }
        Ok(Outcome::Nothing)
    }

    pub(super) fn vacate_vms(&mut self, c: &VacateVms) -> Result<Outcome, Reason> {
        self.check_leadership(c.leadership)?;
        limits::text("reason", &c.reason, limits::MESSAGE_MAX)?;
        let mut refused: Vec<(VmId, Reason)> = Vec::new();
        for id in &c.vms {
            if let Err(reason) = self.vacate_vm(*id, c) {
                refused.push((*id, reason));
            }
        }
        Ok(Outcome::Placed { refused })
    }

    fn vacate_vm(&mut self, id: VmId, c: &VacateVms) -> Result<(), Reason> {
        let mut vm = self.state.vms.get(&id).cloned().ok_or_else(|| not_found(Kind::Vm, id))?;
        if vm.claim.is_none() || vm.status == VmStatus::Deleting || vm.recovery.vacate.is_some() {
            return Err(wrong_state(format!("VM `{}` has no host to leave, or leaves it already", vm.name)));
        }
        if !vm.spec.is_movable() {
            return Err(wrong_state(format!(
                "VM `{}` has a local disk that holds something (`disk_loss: refuse`)",
                vm.name
            )));
        }
        vm.recovery.vacate =
            Some(Vacate { since: self.at, reason: c.reason.clone(), stop: c.stop, to: None });
        vm.recovery.next_restart_at = None;
        vm.task_state = Some(TaskState::Moving);
        self.event(Kind::Vm, id, &vm.name, "leaving", c.reason.clone());
        self.put_vm(vm);
        Ok(())
    }

    /// It has left its node: back to the queue, or off without a node.
    pub(super) fn vacated(&mut self, mut vm: Vm, vacate: Option<Vacate>) {
        vm.recovery.move_to = vacate.as_ref().and_then(|vacate| vacate.to);
        let reason = vacate.map_or(String::new(), |vacate| vacate.reason);
        self.event(Kind::Vm, vm.id, &vm.name, "left", reason.clone());
        if vm.power.want == WantPower::On {
            self.wait_for_another(&mut vm, &reason);
        } else {
            vm.status = VmStatus::Shutoff;
            vm.task_state = None;
            vm.observed = None;
        }
        self.put_vm(vm);
    }
}

fn check_request(request: &DrainRequest) -> Result<(), Reason> {
    if request.stop_timeout_s > limits::STOP_TIMEOUT_S_MAX {
        let (is, most) = (request.stop_timeout_s, limits::STOP_TIMEOUT_S_MAX);
        return Err(invalid("stop_timeout_s", format!("is {is}, must be at most {most}")));
    }
    Ok(())
}
