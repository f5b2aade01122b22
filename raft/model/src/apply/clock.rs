//! The clock of the log. Stamps are for people and for time-outs; a leader continues the clock of the one before it,
//! and says so here when it is moved to its own. What runs out at a stamp is moved with it: a VM that has waited nine
//! minutes has waited nine minutes, whatever a clock says. So is what VMs are ordered by: the one that was created
//! first stays the oldest.

use super::Cx;
use crate::command::SetClock;
use crate::id::Timestamp;
use crate::node::Node;
use crate::reply::{Kind, Outcome, Reason};
use crate::vm::Vm;

impl Cx<'_> {
    pub(super) fn set_clock(&mut self, c: &SetClock) -> Result<Outcome, Reason> {
        self.check_leadership(c.leadership)?;
        let vms: Vec<Vm> = self.state.vms.values().cloned().collect();
        for mut vm in vms {
            if self.knows(1) {
                vm.created_at = moved(vm.created_at, c.by_ms);
            }
            if self.knows(2) {
                // Or it would have been changed before it was created.
                vm.updated_at = moved(vm.updated_at, c.by_ms);
            }
            move_vm(&mut vm, c.by_ms);
            self.state.vms.insert(vm.id, vm);
        }
        let nodes: Vec<Node> = self.state.nodes.values().cloned().collect();
        for mut node in nodes {
            node.up_changed_at = moved(node.up_changed_at, c.by_ms);
            node.cloned_at = node.cloned_at.map(|at| moved(at, c.by_ms));
            node.fenced_at = node.fenced_at.map(|at| moved(at, c.by_ms));
            if let Some(fence) = &mut node.fence {
                fence.at = moved(fence.at, c.by_ms);
            }
            self.state.nodes.insert(node.id, node);
        }
        let message = format!("by {} s, as the clock of the leader is", c.by_ms / 1_000);
        self.event(Kind::Cluster, "clock", "clock", "clock-moved", message);
        Ok(Outcome::Nothing)
    }
}

fn move_vm(vm: &mut Vm, by_ms: i64) {
    let recovery = &mut vm.recovery;
    let running_out = [
        &mut vm.waiting_since,
        &mut recovery.task_since,
        &mut recovery.next_restart_at,
        &mut recovery.restarts_since,
    ];
    for at in running_out.into_iter().flatten() {
        *at = moved(*at, by_ms);
    }
    if vm.task_state.is_none() {
        return;
    }
    if let Some(observed) = &mut vm.observed {
        observed.at = moved(observed.at, by_ms);
    }
    if let Some(fault) = &mut vm.fault {
        fault.at = moved(fault.at, by_ms);
    }
}

fn moved(at: Timestamp, by_ms: i64) -> Timestamp {
    Timestamp(at.0.saturating_add_signed(by_ms))
}
