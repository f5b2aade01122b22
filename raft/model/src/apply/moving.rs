//! Moves by an operator's word, for a better balance: the VM is stopped, its epoch released, and it is placed anew,
//! on the node it was moved to if it still fits there.

use super::{Cx, invalid, not_found, wrong_state};
use crate::command::{MoveVms, Relocation};
use crate::id::VmId;
use crate::limits;
use crate::reply::{Kind, Outcome, Reason};
use crate::vm::{StopMode, TaskState, Vacate};

impl Cx<'_> {
    pub(super) fn move_vms(&mut self, c: &MoveVms) -> Result<Outcome, Reason> {
        if c.moves.is_empty() || c.moves.len() > limits::BATCH_MAX {
            return Err(invalid(
                "moves",
                format!("are {}, must be 1 to {}", c.moves.len(), limits::BATCH_MAX),
            ));
        }
        let mut refused: Vec<(VmId, Reason)> = Vec::new();
        for relocation in &c.moves {
            if let Err(reason) = self.move_vm(relocation, c.stop) {
                refused.push((relocation.vm, reason));
            }
        }
        Ok(Outcome::Placed { refused })
    }

    fn move_vm(&mut self, c: &Relocation, stop: StopMode) -> Result<(), Reason> {
        let mut vm = self.vm(c.vm)?;
        let to = self.state.nodes.get(&c.to).ok_or_else(|| not_found(Kind::Node, c.to))?;
        vm.may_move().map_err(|why| wrong_state(format!("VM `{}` cannot be moved: {why}", vm.name)))?;
        let stands = vm.claim.as_ref().is_some_and(|claim| claim.epoch == c.epoch && claim.node != c.to);
        if !stands {
            return Err(wrong_state(format!("VM `{}` is not where it was any longer", vm.name)));
        }
        let reason = format!("rebalance: moves to {}", to.name);
        vm.recovery.vacate = Some(Vacate { since: self.at, reason: reason.clone(), stop, to: Some(c.to) });
        vm.recovery.next_restart_at = None;
        vm.task_state = Some(TaskState::Moving);
        self.event(Kind::Vm, vm.id, &vm.name, "leaving", reason);
        self.put_vm(vm);
        Ok(())
    }
}
