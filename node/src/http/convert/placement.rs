//! Records about placement, both ways: what a VM asks of its host, how its host was chosen, aggregates,
//! groups, quotas. Decimal numbers of REST become the model's thousandths here.

use std::collections::BTreeMap;

use holm_api as api;
use holm_model::{self as model, NodeId, ResourceClass, State, VmId};

use super::{node_name, node_ref, timestamp};
use crate::http::problem::{Failure, Result};

pub fn scheduling(state: &State, asked: &model::scheduling::Scheduling) -> api::Scheduling {
    // Of its own project.
    let name = |id: &VmId| state.vms.get(id).map_or_else(|| id.to_string(), |vm| vm.name.clone());
    let names = |ids: &std::collections::BTreeSet<VmId>| ids.iter().map(name).collect();
    let group = asked
        .group
        .map(|id| state.groups.get(&id).map_or_else(|| id.to_string(), |group| group.name.clone()));
    api::Scheduling {
        availability_zone: asked.availability_zone.clone(),
        node_selector: asked.node_selector.iter().map(requirement).collect(),
        tolerations: asked.tolerations.iter().map(toleration).collect(),
        group,
        different_host: names(&asked.different_host),
        same_host: names(&asked.same_host),
        near: asked.near.clone(),
        priority: asked.priority,
        preemptible: asked.preemptible,
    }
}

/// A VM's name where VMs of several projects are shown together: outside `default`, with its project before it. Of one
/// that is gone, its id.
pub fn vm_name(state: &State, id: VmId) -> String {
    let named = |vm: &model::vm::Vm| match vm.project.as_str() {
        model::project::DEFAULT => vm.name.clone(),
        project => format!("{project}/{}", vm.name),
    };
    state.vms.get(&id).map_or_else(|| id.to_string(), named)
}

fn requirement(requirement: &model::scheduling::Requirement) -> api::Requirement {
    use model::scheduling::Operator as From;
    api::Requirement {
        key: requirement.key.clone(),
        operator: match requirement.operator {
            From::In => api::Operator::In,
            From::NotIn => api::Operator::NotIn,
            From::Exists => api::Operator::Exists,
            From::DoesNotExist => api::Operator::DoesNotExist,
            From::Gt => api::Operator::Gt,
            From::Lt => api::Operator::Lt,
        },
        values: requirement.values.clone(),
    }
}

pub fn to_requirement(requirement: &api::Requirement) -> model::scheduling::Requirement {
    use model::scheduling::Operator as To;
    model::scheduling::Requirement {
        key: requirement.key.clone(),
        operator: match requirement.operator {
            api::Operator::In => To::In,
            api::Operator::NotIn => To::NotIn,
            api::Operator::Exists => To::Exists,
            api::Operator::DoesNotExist => To::DoesNotExist,
            api::Operator::Gt => To::Gt,
            api::Operator::Lt => To::Lt,
        },
        values: requirement.values.clone(),
    }
}

fn effect(effect: model::scheduling::Effect) -> api::Effect {
    match effect {
        model::scheduling::Effect::NoSchedule => api::Effect::NoSchedule,
        model::scheduling::Effect::PreferNoSchedule => api::Effect::PreferNoSchedule,
    }
}

fn to_effect(effect: api::Effect) -> model::scheduling::Effect {
    match effect {
        api::Effect::NoSchedule => model::scheduling::Effect::NoSchedule,
        api::Effect::PreferNoSchedule => model::scheduling::Effect::PreferNoSchedule,
    }
}

fn toleration(toleration: &model::scheduling::Toleration) -> api::Toleration {
    let model::scheduling::Toleration { key, value, effect: of } = toleration.clone();
    api::Toleration { key, value, effect: of.map(effect) }
}

pub fn to_toleration(toleration: &api::Toleration) -> model::scheduling::Toleration {
    let api::Toleration { key, value, effect } = toleration.clone();
    model::scheduling::Toleration { key, value, effect: effect.map(to_effect) }
}

pub fn taint(taint: &model::scheduling::Taint) -> api::Taint {
    api::Taint { key: taint.key.clone(), value: taint.value.clone(), effect: effect(taint.effect) }
}

pub fn to_taint(taint: &api::Taint) -> model::scheduling::Taint {
    model::scheduling::Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: to_effect(taint.effect),
    }
}

pub fn advice(state: &State, advice: &[holm_sched::Advice]) -> Vec<api::Advice> {
    let one = |advice: &holm_sched::Advice| api::Advice {
        by: advice.by.clone(),
        nodes: advice.nodes.iter().map(|node| node_name(state, *node)).collect(),
        fix: advice.fix.clone(),
    };
    advice.iter().map(one).collect()
}

pub fn eviction(state: &State, eviction: &holm_sched::preempt::Eviction) -> api::Eviction {
    api::Eviction {
        node: node_name(state, eviction.node),
        victims: eviction.victims.iter().map(|vm| vm_name(state, *vm)).collect(),
    }
}

pub fn decision(state: &State, decision: &model::vm::Decision) -> api::Decision {
    api::Decision {
        at: timestamp(decision.at),
        revision: decision.revision.0,
        seen: decision.seen.0,
        policy: decision.policy.0,
        chosen: decision.scores.first().map(|score| node_name(state, score.node)),
        candidates: decision.candidates,
        evicted: decision.evicted.iter().map(|vm| vm_name(state, *vm)).collect(),
        withheld: decision.withheld.iter().map(|node| node_name(state, *node)).collect(),
        scores: decision.scores.iter().map(|score| self::score(state, score)).collect(),
    }
}

fn score(state: &State, score: &model::vm::Score) -> api::Score {
    api::Score {
        node: node_name(state, score.node),
        node_id: score.node.0,
        score: score.score_millionths as f64 / 1e6,
    }
}

pub fn inventory_override(over: &model::resources::InventoryOverride) -> api::InventoryOverride {
    api::InventoryOverride {
        total: over.total,
        reserved: over.reserved,
        allocation_ratio: over.allocation_ratio_thousandths.map(|ratio| ratio as f64 / 1e3),
        min_unit: over.min_unit,
        max_unit: over.max_unit,
        step_size: over.step_size,
    }
}

pub fn overrides(
    overrides: &BTreeMap<ResourceClass, model::resources::InventoryOverride>,
) -> BTreeMap<String, api::InventoryOverride> {
    overrides.iter().map(|(class, over)| (class.name().to_owned(), inventory_override(over))).collect()
}

/// Changes of overrides, by class.
pub type OverrideChanges = BTreeMap<ResourceClass, Option<model::resources::InventoryOverride>>;

/// As the model takes them.
///
/// # Errors
/// A ratio that is no decimal number above 0 with three decimals.
pub fn to_overrides(changes: &BTreeMap<String, Option<api::PatchInventory>>) -> Result<OverrideChanges> {
    let one = |(class, change): (&String, &Option<api::PatchInventory>)| {
        let over = change.as_ref().map(|change| to_override(class, change)).transpose()?;
        Ok((ResourceClass::from(class.clone()), over))
    };
    changes.iter().map(one).collect()
}

fn to_override(class: &str, change: &api::PatchInventory) -> Result<model::resources::InventoryOverride> {
    use model::resources::InventoryField::{AllocationRatio, MaxUnit, MinUnit, Reserved, StepSize, Total};
    let field = format!("inventory.{class}.allocation_ratio");
    let ratio = change.allocation_ratio.flatten().map(|ratio| {
        let positive = u64::try_from(thousandths(&field, ratio)?).ok().filter(|ratio| *ratio > 0);
        positive.ok_or_else(|| Failure::invalid(&field, "must be above 0, such as 4 or 1.5"))
    });
    let nulls = [
        (Total, change.total == Some(None)),
        (Reserved, change.reserved == Some(None)),
        (AllocationRatio, change.allocation_ratio == Some(None)),
        (MinUnit, change.min_unit == Some(None)),
        (MaxUnit, change.max_unit == Some(None)),
        (StepSize, change.step_size == Some(None)),
    ];
    Ok(model::resources::InventoryOverride {
        total: change.total.flatten(),
        reserved: change.reserved.flatten(),
        allocation_ratio_thousandths: ratio.transpose()?,
        min_unit: change.min_unit.flatten(),
        max_unit: change.max_unit.flatten(),
        step_size: change.step_size.flatten(),
        taken_back: nulls.into_iter().filter_map(|(field, null)| null.then_some(field)).collect(),
    })
}

/// A decimal number in thousandths; one that three decimals cannot hold is refused, not rounded to
/// something else.
pub(super) fn thousandths(field: &str, number: f64) -> Result<i64> {
    const MOST: f64 = 1e12;
    let scaled = number * 1000.0;
    if !scaled.is_finite() || scaled.abs() > MOST {
        return Err(Failure::invalid(field, format!("{number:e} is too large")));
    }
    let rounded = scaled.round();
    if (scaled - rounded).abs() > 1e-6 * scaled.abs().max(1.0) {
        return Err(Failure::invalid(field, format!("{number} has more than three decimals")));
    }
    Ok(rounded as i64)
}

pub fn aggregate(state: &State, aggregate: &model::aggregate::Aggregate) -> api::Aggregate {
    api::Aggregate {
        id: aggregate.id.0,
        name: aggregate.name.clone(),
        nodes: aggregate.nodes.iter().map(|id| node_ref(state, *id)).collect(),
        availability_zone: aggregate.zone().map(str::to_owned),
        metadata: aggregate.metadata.clone(),
        inventory: overrides(&aggregate.inventory),
        created_at: timestamp(aggregate.created_at),
        revision: aggregate.revision.0,
    }
}

/// Every zone that is named or has nodes, by name.
pub fn zones(state: &State) -> BTreeMap<String, api::AvailabilityZone> {
    let mut zones = BTreeMap::new();
    let empty = |name: &str| api::AvailabilityZone {
        name: name.to_owned(),
        available: false,
        nodes: Vec::new(),
        aggregates: Vec::new(),
        vms: 0,
    };
    for aggregate in state.aggregates.values() {
        if let Some(zone) = aggregate.zone() {
            let zone = zones.entry(zone.to_owned()).or_insert_with(|| empty(zone));
            zone.aggregates.push(aggregate.name.clone());
        }
    }
    for node in state.nodes.values() {
        let name = state.zone_of(node.id);
        let zone = zones.entry(name.to_owned()).or_insert_with(|| empty(name));
        zone.available |= node.up && node.enabled;
        zone.nodes.push(node_ref(state, node.id));
        zone.vms += vms_on(state, node.id);
    }
    zones
}

pub fn vms_on(state: &State, node: NodeId) -> u64 {
    state.vms_by_node.get(&node).map_or(0, |vms| vms.len() as u64)
}

pub fn group(state: &State, group: &model::group::ServerGroup) -> api::ServerGroup {
    let members = state.group_members.get(&group.id).into_iter().flatten();
    let member = |vm: &model::vm::Vm| api::GroupMember {
        id: vm.id.0,
        name: vm.name.clone(),
        node: vm.claim.as_ref().map(|claim| node_name(state, claim.node)),
    };
    api::ServerGroup {
        id: group.id.0,
        name: group.name.clone(),
        project: group.project.clone(),
        policy: match group.policy {
            model::group::GroupPolicy::Affinity => api::GroupPolicy::Affinity,
            model::group::GroupPolicy::AntiAffinity => api::GroupPolicy::AntiAffinity,
            model::group::GroupPolicy::SoftAffinity => api::GroupPolicy::SoftAffinity,
            model::group::GroupPolicy::SoftAntiAffinity => api::GroupPolicy::SoftAntiAffinity,
        },
        max_server_per_host: group.max_server_per_host,
        members: members.filter_map(|id| state.vms.get(id)).map(member).collect(),
        created_at: timestamp(group.created_at),
        revision: group.revision.0,
    }
}

pub fn to_group_policy(policy: api::GroupPolicy) -> model::group::GroupPolicy {
    match policy {
        api::GroupPolicy::Affinity => model::group::GroupPolicy::Affinity,
        api::GroupPolicy::AntiAffinity => model::group::GroupPolicy::AntiAffinity,
        api::GroupPolicy::SoftAffinity => model::group::GroupPolicy::SoftAffinity,
        api::GroupPolicy::SoftAntiAffinity => model::group::GroupPolicy::SoftAntiAffinity,
    }
}

/// Amounts by class name.
pub fn amounts(amounts: &model::Resources) -> BTreeMap<String, u64> {
    amounts.0.iter().map(|(class, amount)| (class.name().to_owned(), *amount)).collect()
}

pub fn project(state: &State, project: &model::project::Project) -> api::Project {
    let name = project.name.as_str();
    api::Project {
        id: project.id.0,
        name: name.to_owned(),
        description: project.description.clone(),
        vms: state.vms_of(name).count() as u64,
        server_groups: state.groups_of(name).count() as u64,
        images: state.images_of(name).count() as u64,
        volumes: state.volumes_of(name).count() as u64,
        created_at: timestamp(project.created_at),
        revision: project.revision.0,
    }
}

pub fn quota(state: &State, project: &str) -> api::Quota {
    let (limits, usage) = (state.quotas.get(project), state.usage.get(project));
    let of = |class: &ResourceClass| api::QuotaClass {
        used: usage.map_or(0, |usage| usage.get(class)),
        limit: limits.and_then(|limits| limits.0.get(class).copied()),
    };
    let always = [ResourceClass::Vcpu, ResourceClass::MemoryMb, ResourceClass::DiskGb];
    let vms = ResourceClass::from(model::quota::VMS.to_owned());
    let named = limits.into_iter().chain(usage).flat_map(|amounts| amounts.0.keys().cloned());
    let classes = always.into_iter().chain([vms]).chain(named);
    api::Quota {
        project: project.to_owned(),
        classes: classes.map(|class| (class.name().to_owned(), of(&class))).collect(),
    }
}
