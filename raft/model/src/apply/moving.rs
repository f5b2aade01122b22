//! Moves by an operator's word, for a better balance: the VM is stopped, its epoch released, and it is placed anew,
//! on the node it was moved to if it still fits there.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cx, invalid, not_found, wrong_state};
use crate::command::{MoveVms, Relocation};
use crate::feasible::{can_arrive, capacity, claim_of, feasible};
use crate::id::{GroupId, NodeId};
use crate::limits;
use crate::reply::{Kind, Moved, Outcome, Reason};
use crate::resources::Resources;
use crate::vm::{Availability, StopMode, TaskState, Vacate, Vm};

/// What is on its way.
#[derive(Default)]
struct Heading {
    /// By node, what will claim it.
    claims: BTreeMap<NodeId, Resources>,
    groups: BTreeSet<GroupId>,
    /// How many of them can arrive.
    moving: usize,
    /// The name of one of them.
    one: String,
}

impl Heading {
    fn add(&mut self, vm: &Vm, to: NodeId) {
        self.claims.entry(to).or_default().add(&claim_of(&vm.spec));
        self.groups.extend(vm.spec.scheduling.group);
    }

    fn count(&mut self, vm: &Vm) {
        self.moving += 1;
        self.one.clone_from(&vm.name);
    }
}

impl Cx<'_> {
    pub(super) fn move_vms(&mut self, c: &MoveVms) -> Result<Outcome, Reason> {
        if c.moves.is_empty() || c.moves.len() > limits::BATCH_MAX {
            return Err(invalid(
                "moves",
                format!("are {}, must be 1 to {}", c.moves.len(), limits::BATCH_MAX),
            ));
        }
        if self.knows(2) {
            self.admit(Availability::Failover, c.admitted)?;
        }
        let mut heading = c.planned.map(|_| self.heading());
        let (mut begun, mut refused) = (Vec::new(), Vec::new());
        for relocation in &c.moves {
            match self.move_vm(relocation, c.stop, heading.as_mut()) {
                Ok(moved) => begun.push(moved),
                Err(reason) => refused.push((relocation.vm, reason)),
            }
        }
        Ok(match c.planned {
            Some(planned) => Outcome::Moved { begun, planned, refused },
            None => Outcome::Placed { refused },
        })
    }

    /// What is on its way to each node, and claims nothing there yet.
    fn heading(&self) -> Heading {
        let mut heading = Heading::default();
        for vm in self.state.vms.values() {
            let leaving = vm.claim.as_ref().and(vm.recovery.vacate.as_ref()).and_then(|vacate| vacate.to);
            let waiting = vm.recovery.move_to.filter(|_| self.state.waiting.contains(&vm.id));
            if let Some(to) = leaving.or(waiting) {
                heading.add(vm, to);
                if self.goes_on(vm) {
                    heading.count(vm);
                }
            }
        }
        heading
    }

    /// Whether others wait for it to arrive.
    fn goes_on(&self, vm: &Vm) -> bool {
        if self.knows(2) {
            return can_arrive(self.state, vm);
        }
        let from = vm.claim.as_ref().and_then(|claim| self.state.nodes.get(&claim.node));
        from.is_none_or(|node| node.up)
    }

    /// With `heading`, only to a node that has room for it beside what is on its way there, while few are, and none of
    /// its group: whoever proposed it may not have seen what another began.
    fn move_vm(
        &mut self,
        c: &Relocation,
        stop: StopMode,
        heading: Option<&mut Heading>,
    ) -> Result<Moved, Reason> {
        let mut vm = self.vm(c.vm)?;
        let to = self.state.nodes.get(&c.to).ok_or_else(|| not_found(Kind::Node, c.to))?;
        vm.may_move().map_err(|why| wrong_state(format!("VM `{}` cannot be moved: {why}", vm.name)))?;
        let stands = vm.claim.as_ref().filter(|claim| claim.epoch == c.epoch && claim.node != c.to);
        let Some(from) = stands.map(|claim| claim.node) else {
            return Err(wrong_state(format!("VM `{}` is not where it was any longer", vm.name)));
        };
        if let Some(heading) = heading {
            if heading.moving >= limits::MOVES_AT_ONCE
                || vm.spec.scheduling.group.is_some_and(|group| heading.groups.contains(&group))
            {
                let mut why = format!("VM `{}` is to move once those under way have arrived", vm.name);
                if self.knows(2) && heading.moving > 0 {
                    why.push_str(&format!(", among them `{}`", heading.one));
                }
                return Err(wrong_state(why));
            }
            let mut taken = to.allocated.clone();
            taken.add(heading.claims.entry(c.to).or_default());
            let claim = claim_of(&vm.spec);
            feasible(self.state, to, &vm)
                .and_then(|()| capacity(to, &taken, &claim).map_err(|refusal| ("Capacity", refusal)))
                .map_err(|(by, message)| Reason::Infeasible { by: by.to_owned(), message })?;
            heading.add(&vm, c.to);
            heading.count(&vm);
        }
        let reason = format!("rebalance: moves to {}", to.name);
        vm.recovery.vacate = Some(Vacate { since: self.at, reason: reason.clone(), stop, to: Some(c.to) });
        vm.recovery.next_restart_at = None;
        vm.task_state = Some(TaskState::Moving);
        self.event(Kind::Vm, vm.id, &vm.name, "leaving", reason);
        self.put_vm(vm);
        Ok(Moved { vm: c.vm, from, to: c.to, gain: c.gain })
    }
}
