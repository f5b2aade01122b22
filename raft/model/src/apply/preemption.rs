//! Preemption: VMs that allow it leave their node for one of greater priority. Each is named, with the reason, by
//! an event of its own and in the record of the VM it makes room for. Its claim ends as every claim does, by its
//! node's release (FENCING.md, rule 1), and it goes back to the queue.

use std::collections::BTreeSet;

use super::{Cx, invalid, not_found, some_names, wrong_state};
use crate::command::PreemptVms;
use crate::feasible::may_evict;
use crate::id::{NodeId, VmId};
use crate::limits;
use crate::reply::{Kind, Outcome, Reason};
use crate::vm::{Reservation, TaskState, Vacate, Vm};

impl Cx<'_> {
    pub(super) fn preempt_vms(&mut self, c: &PreemptVms) -> Result<Outcome, Reason> {
        self.check_leadership(c.leadership)?;
        if !self.state.scheduler.preemption {
            return Err(wrong_state("preemption is off"));
        }
        let mut vm = self.state.vms.get(&c.vm).cloned().ok_or_else(|| not_found(Kind::Vm, c.vm))?;
        if !self.state.waiting.contains(&c.vm) {
            return Err(wrong_state(format!("VM `{}` is not waiting for a host", vm.name)));
        }
        let node = self.state.nodes.get(&c.node).ok_or_else(|| not_found(Kind::Node, c.node))?;
        let node = node.name.clone();
        if c.victims.is_empty() || c.victims.len() > limits::BATCH_MAX {
            return Err(invalid(
                "victims",
                format!("are {}, must be 1 to {}", c.victims.len(), limits::BATCH_MAX),
            ));
        }
        let victims =
            c.victims.iter().map(|id| self.victim(*id, &vm, c.node)).collect::<Result<Vec<Vm>, _>>()?;

        let names = some_names(victims.iter().map(|victim| victim.name.as_str())).join(", ");
        let message =
            format!("{node} is kept for it, and these leave there, all of lesser priority: {names}");
        self.event(Kind::Vm, vm.id, &vm.name, "preempting", message);
        let priority = vm.spec.scheduling.priority;
        for mut victim in victims {
            let reason = format!(
                "preempted by `{}`: priority {} gives way to {priority}",
                vm.name, victim.spec.scheduling.priority
            );
            self.event(Kind::Vm, victim.id, &victim.name, "leaving", reason.clone());
            victim.recovery.vacate = Some(Vacate { since: self.at, reason, stop: c.stop, to: None });
            victim.recovery.next_restart_at = None;
            victim.task_state = Some(TaskState::Moving);
            self.put_vm(victim);
        }
        let since = match &vm.reserved {
            Some(reserved) if reserved.node == c.node => reserved.since,
            _ => self.revision,
        };
        let mut evicted = self.evicted_for(&vm, c.node);
        evicted.extend(c.victims.iter().copied());
        vm.reserved = Some(Reservation { node: c.node, since, evicted });
        self.put_vm(vm);
        Ok(Outcome::Vm(c.vm))
    }

    /// A VM that may be evicted from `node` for `vm`.
    fn victim(&self, id: VmId, vm: &Vm, node: NodeId) -> Result<Vm, Reason> {
        let victim = self.state.vms.get(&id).cloned().ok_or_else(|| not_found(Kind::Vm, id))?;
        if victim.claim.as_ref().is_none_or(|claim| claim.node != node) || victim.recovery.vacate.is_some() {
            return Err(wrong_state(format!(
                "VM `{}` is not on that node, or leaves it already",
                victim.name
            )));
        }
        may_evict(vm, &victim).map_err(|why| wrong_state(format!("VM `{}`: {why}", victim.name)))?;
        Ok(victim)
    }

    /// Those that left, or leave, `node` for `vm`.
    pub(super) fn evicted_for(&self, vm: &Vm, node: NodeId) -> BTreeSet<VmId> {
        let reserved = vm.reserved.as_ref().filter(|reserved| reserved.node == node);
        reserved.map(|reserved| reserved.evicted.clone()).unwrap_or_default()
    }
}
