//! What a new VM says about its host, checked, and its membership of a group. Batches too.

use super::{Cx, invalid, not_found};
use crate::command::CreateVms;
use crate::group::GroupPolicy;
use crate::id::VmId;
use crate::limits;
use crate::reply::{Kind, Outcome, Reason};
use crate::scheduling::{Operator, Requirement, Scheduling, Toleration, parse_network};
use crate::vm::Vm;

impl Cx<'_> {
    pub(super) fn check_scheduling(&self, scheduling: &Scheduling) -> Result<(), Reason> {
        let Scheduling {
            availability_zone,
            node_selector,
            tolerations,
            group,
            different_host,
            same_host,
            near,
            priority,
            preemptible: _,
        } = scheduling;
        if let Some(zone) = availability_zone {
            let known = zone == crate::aggregate::DEFAULT_ZONE
                || self.state.aggregates.values().any(|aggregate| aggregate.zone() == Some(zone));
            if !known {
                return Err(invalid("availability_zone", format!("there is no zone {zone:?}")));
            }
        }
        limits::count("node_selector", node_selector.len())?;
        node_selector.iter().try_for_each(check_requirement)?;
        limits::count("tolerations", tolerations.len())?;
        tolerations.iter().try_for_each(check_toleration)?;
        if let Some(group) = group {
            self.own_group(*group)?;
        }
        for (field, vms) in [("different_host", different_host), ("same_host", same_host)] {
            limits::count(field, vms.len())?;
            for id in vms {
                let known = self.state.vms.get(id).is_some_and(|vm| vm.project == self.actor.project);
                if !known {
                    return Err(not_found(Kind::Vm, id));
                }
            }
        }
        if let Some(both) = different_host.intersection(same_host).next() {
            let name = self.state.vms.get(both).map_or("", |vm| vm.name.as_str());
            return Err(invalid("same_host", format!("VM `{name}` is in `different_host` too")));
        }
        if self.knows(1) {
            self.check_group_against(scheduling)?;
        }
        if near.as_ref().is_some_and(|near| parse_network(near).is_none()) {
            return Err(invalid("near", "must be a network such as 10.1.0.0/16"));
        }
        if priority.unsigned_abs() > limits::PRIORITY_MAX.unsigned_abs() {
            return Err(invalid("priority", format!("must be within ±{}", limits::PRIORITY_MAX)));
        }
        Ok(())
    }

    /// What the group asks for and what is asked beside it can both hold on some host.
    fn check_group_against(&self, scheduling: &Scheduling) -> Result<(), Reason> {
        let Some(group) = scheduling.group.and_then(|id| self.state.groups.get(&id)) else { return Ok(()) };
        let member =
            |id: &&VmId| self.state.vms.get(*id).is_some_and(|vm| vm.spec.scheduling.group == Some(group.id));
        let name = |id: &VmId| self.state.vms.get(id).map_or("", |vm| vm.name.as_str());
        let (apart, beside) = (&scheduling.different_host, &scheduling.same_host);
        let one_a_host = group.max_server_per_host.unwrap_or(1) == 1;
        match group.policy {
            GroupPolicy::Affinity => match apart.iter().find(member) {
                Some(vm) => Err(invalid(
                    "different_host",
                    format!("VM `{}` is in the group `{}`, which stays on one host", name(vm), group.name),
                )),
                None => Ok(()),
            },
            GroupPolicy::AntiAffinity if one_a_host => match beside.first() {
                Some(vm) if beside.iter().all(|id| member(&id)) => Err(invalid(
                    "same_host",
                    format!("VM `{}` is in the group `{}`, of which a host takes one", name(vm), group.name),
                )),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    pub(super) fn join_group(&mut self, vm: &Vm) {
        let Some(group) = vm.spec.scheduling.group else { return };
        let mut members = self.state.group_members.get(&group).cloned().unwrap_or_default();
        members.insert(vm.id);
        self.state.group_members.insert(group, members);
    }

    pub(super) fn leave_group(&mut self, vm: &Vm) {
        let Some(group) = vm.spec.scheduling.group else { return };
        let mut members = self.state.group_members.get(&group).cloned().unwrap_or_default();
        members.remove(&vm.id);
        if members.is_empty() {
            self.state.group_members.remove(&group);
        } else {
            self.state.group_members.insert(group, members);
        }
    }

    pub(super) fn create_vms(&mut self, c: &CreateVms) -> Result<Outcome, Reason> {
        if c.items.is_empty() || c.items.len() > limits::BATCH_MAX {
            let most = limits::BATCH_MAX;
            return Err(invalid("count", format!("is {}, must be 1 to {most}", c.items.len())));
        }
        // Of a batch that need not come whole, those behind the first may be judged not to hold: they are refused alone.
        let judged = if self.knows(2) && !c.atomic { 1 } else { c.items.len() };
        for item in c.items.iter().take(judged) {
            self.check_admission(item.availability, item.admitted)?;
        }
        let before = c.atomic.then(|| (self.state.clone(), self.events.len()));
        let (mut created, mut refused) = (Vec::new(), Vec::new());
        for item in &c.items {
            match self.create_vm(item) {
                Ok(_) => created.push(item.id),
                Err(reason) => refused.push((item.id, reason)),
            }
            if c.atomic && !refused.is_empty() {
                break;
            }
        }
        if let Some((state, events)) = before
            && let Some((_, reason)) = refused.first()
        {
            *self.state = state;
            self.events.truncate(events);
            return Err(reason.clone());
        }
        let one_reason = refused.windows(2).all(|two| two[0].1 == two[1].1);
        if created.is_empty()
            && (one_reason || !self.knows(2))
            && let Some((_, reason)) = refused.first()
        {
            return Err(reason.clone());
        }
        if c.atomic && created.len() > 1 && self.knows(2) {
            self.bind(&created);
        }
        Ok(Outcome::Vms { created, refused })
    }

    /// From here on these are placed together or not at all.
    fn bind(&mut self, created: &[VmId]) {
        for id in created {
            if let Some(vm) = self.state.vms.get_mut(id) {
                vm.batch = created.first().copied();
            }
        }
    }
}

fn check_requirement(requirement: &Requirement) -> Result<(), Reason> {
    const FIELD: &str = "node_selector";
    let Requirement { key, operator, values } = requirement;
    limits::key(FIELD, key)?;
    limits::count(FIELD, values.len())?;
    values.iter().try_for_each(|value| limits::text(FIELD, value, limits::KEY_BYTES_MAX))?;
    let wrong = |message: &str| Err(invalid(FIELD, format!("{key}: {operator:?} {message}")));
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => wrong("takes at least one value"),
        Operator::In | Operator::NotIn => Ok(()),
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => wrong("takes no value"),
        Operator::Exists | Operator::DoesNotExist => Ok(()),
        Operator::Gt | Operator::Lt => match values.as_slice() {
            [one] if one.parse::<i64>().is_ok() => Ok(()),
            _ => wrong("takes one whole number"),
        },
    }
}

fn check_toleration(toleration: &Toleration) -> Result<(), Reason> {
    if let Some(key) = &toleration.key {
        limits::key("tolerations", key)?;
    }
    match (&toleration.key, &toleration.value) {
        (None, Some(_)) => Err(invalid("tolerations", "a value needs a key")),
        (_, Some(value)) => limits::text("tolerations", value, limits::KEY_BYTES_MAX),
        _ => Ok(()),
    }
}
