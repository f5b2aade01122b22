//! The leader's decisions: a claim begins here and nowhere else (FENCING.md, rule 1).

use std::collections::{BTreeMap, BTreeSet};

use super::{Cx, not_found, wrong_state};
use crate::command::{Choice, NoHost, PlaceVms, Placement};
use crate::feasible::{
    claim_of, feasible, feasible_in_claims, has_tries_left, no_batch_fits, no_node_fits, parts_for,
};
use crate::id::{Epoch, VmId};
use crate::limits;
use crate::parts::{self, Parts};
use crate::planted::{Plant, planted};
use crate::reply::{Kind, Outcome, Reason};
use crate::vm::{Claim, Decision, Fault, HostReason, RUNNERS_UP_MAX, Reservation, TaskState, Vm, VmStatus};

impl Cx<'_> {
    pub(super) fn place_vms(&mut self, c: &PlaceVms) -> Result<Outcome, Reason> {
        self.check_leadership(c.leadership)?;
        let before = c.atomic.then(|| (self.state.clone(), self.events.len()));
        let mut refused: Vec<(VmId, Reason)> = Vec::new();
        for placement in &c.placements {
            if let Err(reason) = self.place_one(placement) {
                refused.push((placement.vm, reason));
            }
        }
        if let Some((state, events)) = before
            && !refused.is_empty()
        {
            *self.state = state;
            self.events.truncate(events);
            let all = c.placements.iter().map(|placement| placement.vm);
            refused = all
                .map(|vm| match refused.iter().find(|(id, _)| *id == vm) {
                    Some(refusal) => refusal.clone(),
                    None => (vm, Reason::BatchRefused),
                })
                .collect();
        }
        Ok(Outcome::Placed { refused })
    }

    fn place_one(&mut self, placement: &Placement) -> Result<(), Reason> {
        let mut vm =
            self.state.vms.get(&placement.vm).cloned().ok_or_else(|| not_found(Kind::Vm, placement.vm))?;
        if vm.claim.is_some() || !self.state.waiting.contains(&vm.id) {
            return Err(wrong_state(format!("VM `{}` is not waiting for a host", vm.name)));
        }
        let mut node = self
            .state
            .nodes
            .get(&placement.node)
            .cloned()
            .ok_or_else(|| not_found(Kind::Node, placement.node))?;
        let feasible = if self.knows(1) { feasible } else { feasible_in_claims };
        feasible(self.state, &node, &vm)
            .map_err(|(by, message)| Reason::Infeasible { by: by.to_owned(), message })?;

        if self.knows(2) {
            has_tries_left(&vm)
                .map_err(|message| Reason::Infeasible { by: "Excluded".to_owned(), message })?;
        }
        let parts = match parts::asks(&vm.spec) {
            true => parts_for(&node, &node.room.parts, &vm)
                .map_err(|(by, message)| Reason::Infeasible { by: by.to_owned(), message })?,
            false => Parts::default(),
        };
        // One that waited may take room that others were admitted to meanwhile; what comes fresh was judged with them.
        if vm.spec.availability.is_pinned() && !vm.refusals.is_empty() && self.knows(2) {
            self.admit(vm.spec.availability, placement.choice.as_ref().map(|choice| choice.seen))?;
        }
        let resources = claim_of(&vm.spec);
        if !planted(Plant::ClaimLater) {
            node.add_claim(&resources, &parts);
        }
        let epoch = Epoch(self.revision);
        let availability = vm.spec.availability;
        vm.claim = Some(Claim { node: node.id, epoch, resources, parts, availability });
        vm.task_state = Some(TaskState::Spawning);
        vm.refusals.clear();
        let evicted = self.evicted_for(&vm, node.id);
        vm.decision = placement.choice.as_ref().map(|choice| self.decision(choice, evicted));
        vm.waiting_since = None;
        vm.reserved = None;
        vm.recovery.move_to = None;
        vm.observed = None;
        self.state.waiting.remove(&vm.id);
        let mut on_node = self.state.vms_by_node.get(&node.id).cloned().unwrap_or_default();
        on_node.insert(vm.id);
        self.state.vms_by_node.insert(node.id, on_node);
        self.event(Kind::Vm, vm.id, &vm.name, "placed", format!("on {} at epoch {epoch}", node.name));
        self.state.nodes.insert(node.id, node);
        self.put_vm(vm);
        Ok(())
    }

    fn decision(&self, choice: &Choice, evicted: BTreeSet<VmId>) -> Decision {
        Decision {
            at: self.at,
            revision: self.revision,
            seen: choice.seen,
            policy: choice.policy.unwrap_or(self.state.scheduler.revision),
            withheld: choice.withheld.clone(),
            evicted,
            candidates: choice.candidates,
            scores: choice.scores.iter().take(RUNNERS_UP_MAX + 1).copied().collect(),
        }
    }

    pub(super) fn no_host(&mut self, c: &NoHost) -> Result<Outcome, Reason> {
        self.check_leadership(c.leadership)?;
        let told = self.told(c);
        if told.is_empty() {
            let vm = self.state.vms.get(&c.vm).ok_or_else(|| not_found(Kind::Vm, c.vm))?;
            return Err(wrong_state(format!("VM `{}` is not waiting for a host", vm.name)));
        }
        for vm in told {
            self.no_host_for(vm, c)?;
        }
        Ok(Outcome::Vm(c.vm))
    }

    /// Of whom `c` is said: the VMs it names, as far as they wait, and where it speaks of a batch, or gives up on one of
    /// its VMs, of all of it.
    fn told(&self, c: &NoHost) -> Vec<Vm> {
        let named = std::iter::once(&c.vm).chain(&c.also).filter(|id| self.state.waiting.contains(*id));
        let mut told: BTreeSet<VmId> = named.copied().collect();
        let of_all = c.batch.is_some() || c.give_up;
        let batch_of = |id: &VmId| self.state.vms.get(id).and_then(|vm| vm.batch).filter(|_| of_all);
        let batches: BTreeSet<VmId> = told.iter().filter_map(batch_of).collect();
        if !batches.is_empty() {
            let is_of_them = |id: &&VmId| batch_of(id).is_some_and(|batch| batches.contains(&batch));
            told.extend(self.state.waiting.iter().filter(is_of_them));
        }
        told.iter().filter_map(|id| self.state.vms.get(id)).cloned().collect()
    }

    fn no_host_for(&mut self, mut vm: Vm, c: &NoHost) -> Result<(), Reason> {
        vm.refusals = c
            .refusals
            .iter()
            .take(limits::NODES_MAX)
            .map(|refusal| HostReason { message: limits::clip(&refusal.message), ..refusal.clone() })
            .collect();
        self.reserve(&mut vm, c)?;
        if let Some(choice) = &c.choice {
            vm.decision = Some(self.decision(choice, BTreeSet::new()));
        }
        let counts = if c.counts.is_empty() { count(&c.refusals) } else { c.counts.clone() };
        let message = match c.batch {
            Some(fit) => no_batch_fits(fit, &counts),
            None => no_node_fits(&counts),
        };
        // Nobody may be there to ask again for one that lost its node.
        if c.give_up && !vm.recovery.failing_over {
            self.state.waiting.remove(&vm.id);
            vm.status = VmStatus::Error;
            vm.task_state = None;
            vm.waiting_since = None;
            self.event(Kind::Vm, vm.id, &vm.name, "error", message.clone());
        } else {
            self.event(Kind::Vm, vm.id, &vm.name, "waiting", message.clone());
        }
        vm.fault = Some(Fault { message, node: None, at: self.at });
        if c.retry && vm.recovery.failing_over {
            let message = self.begin_build_round(&mut vm);
            self.event(Kind::Vm, vm.id, &vm.name, "trying-again", message);
        }
        self.put_vm(vm);
        Ok(())
    }

    /// After a round that ended with too many failures it is tried elsewhere; after one that ended for want of other
    /// hosts, everywhere. A round in which nothing failed was none.
    fn begin_build_round(&self, vm: &mut Vm) -> &'static str {
        if vm.failed_this_round() > 0 || !self.knows(2) {
            vm.recovery.build_rounds = vm.recovery.build_rounds.saturating_add(1);
        }
        if vm.has_spent_its_round() && self.knows(2) {
            vm.recovery.tried_before = u32::try_from(vm.excluded.len()).unwrap_or(u32::MAX);
            return "on other nodes than those where it failed to build";
        }
        vm.excluded.clear();
        vm.recovery.tried_before = 0;
        "on the nodes where it failed to build"
    }

    /// Keeps the host of the command, or none. A reservation that stays keeps its beginning.
    fn reserve(&mut self, vm: &mut Vm, c: &NoHost) -> Result<(), Reason> {
        let Some(id) = c.reserve.filter(|_| !c.give_up) else {
            vm.reserved = None;
            return Ok(());
        };
        let node = self.state.nodes.get(&id).ok_or_else(|| not_found(Kind::Node, id))?;
        if vm.reserved.as_ref().is_none_or(|reserved| reserved.node != id) {
            let message =
                format!("{} is kept for it: it has waited long, and fits there once room is made", node.name);
            self.event(Kind::Vm, vm.id, &vm.name, "reserved", message);
            vm.reserved = Some(Reservation { node: id, since: self.revision, evicted: BTreeSet::new() });
        }
        Ok(())
    }
}

/// How many nodes each filter refused.
fn count(refusals: &[HostReason]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for refusal in refusals.iter().take(limits::NODES_MAX) {
        *counts.entry(refusal.by.clone()).or_default() += 1;
    }
    counts
}
