//! What is true of every state, whatever commands made it. Tests and checkers call it at every index;
//! a violation is corruption.

use std::collections::{BTreeMap, BTreeSet};

use crate::digest::Digest;
use crate::id::{NodeId, VmId};
use crate::resources::Resources;
use crate::state::State;
use crate::vm::{Vm, VmStatus};

/// Checks every invariant.
///
/// # Errors
/// The first one that does not hold, in words.
pub fn check(state: &State) -> Result<(), String> {
    let mut claimed: BTreeMap<NodeId, Resources> = BTreeMap::new();
    let mut on_node: BTreeMap<NodeId, BTreeSet<VmId>> = BTreeMap::new();
    for vm in state.vms.values() {
        check_vm(state, vm)?;
        if let Some(claim) = &vm.claim {
            claimed.entry(claim.node).or_default().add(&claim.resources);
            on_node.entry(claim.node).or_default().insert(vm.id);
        }
    }
    if state.vm_names.len() != state.vms.len() {
        return Err(format!("{} names for {} VMs", state.vm_names.len(), state.vms.len()));
    }
    for (id, digest, node) in state.nodes.digests() {
        if (id, *digest) != (node.id, Digest::of(node)) {
            return Err(format!("node {id}: {digest:?} is kept beside {node:?}"));
        }
        let sum = claimed.remove(&node.id).unwrap_or_default();
        if node.allocated != sum {
            return Err(format!("node {}: allocated {:?}, claims are {sum:?}", node.id, node.allocated));
        }
        let listed: BTreeSet<_> = state.vms_by_node.get(&node.id).into_iter().flatten().copied().collect();
        if listed != on_node.remove(&node.id).unwrap_or_default() {
            return Err(format!("node {}: the list of its VMs differs from the claims", node.id));
        }
        if node.room != state.room_of(node.id) {
            return Err(format!(
                "node {}: its room is {:?}, the claims leave {:?}",
                node.id,
                node.room,
                state.room_of(node.id)
            ));
        }
        if node.id > state.last_node_id {
            return Err(format!("node {} was never given out", node.id));
        }
    }
    if let Some(node) = claimed.keys().next() {
        return Err(format!("a claim is on node {node}, which does not exist"));
    }
    check_derived(state)?;
    check_parts(state)?;
    if state.waiting.iter().any(|id| !state.vms.contains_key(id)) {
        return Err("a VM that does not exist is waiting".to_owned());
    }
    Ok(())
}

/// No part of a host is held twice.
fn check_parts(state: &State) -> Result<(), String> {
    for node in state.nodes.values() {
        let (mut cpus, mut devices) = (BTreeSet::new(), BTreeSet::new());
        for claim in state.vms_on(node.id).filter_map(|vm| vm.claim.as_ref()) {
            if let Some(twice) = claim.parts.cpus.iter().find(|cpu| !cpus.insert(**cpu)) {
                return Err(format!("node {}: CPU {twice} is held twice", node.id));
            }
            if let Some(twice) = claim.parts.devices.iter().find(|device| !devices.insert(*device)) {
                return Err(format!("node {}: device {twice} is held twice", node.id));
            }
        }
    }
    Ok(())
}

/// Indexes and sums that apply keeps beside the records.
fn check_derived(state: &State) -> Result<(), String> {
    let mut usage: BTreeMap<&String, Resources> = BTreeMap::new();
    let mut members: BTreeMap<_, BTreeSet<VmId>> = BTreeMap::new();
    for vm in state.vms.values() {
        usage.entry(&vm.project).or_default().add(&crate::quota::usage_of(&vm.spec));
        if let Some(group) = vm.spec.scheduling.group {
            if !state.groups.contains_key(&group) {
                return Err(format!("VM {}: its group does not exist", vm.name));
            }
            members.entry(group).or_default().insert(vm.id);
        }
    }
    if !state.usage.iter().eq(usage.iter().map(|(project, usage)| (*project, usage))) {
        return Err(format!("usage {:?}, the VMs make {usage:?}", state.usage));
    }
    let listed = state.group_members.iter().map(|(id, vms)| (*id, vms.iter().copied().collect()));
    if !listed.eq(members) {
        return Err("the members of a group differ from the VMs that name it".to_owned());
    }
    if !state.building.iter().copied().eq(building(state)) {
        return Err(format!("building {:?}, the VMs say {:?}", state.building, building(state)));
    }
    if state.group_hosts != state.seats() {
        return Err(format!("hosts of groups {:?}, the claims say {:?}", state.group_hosts, state.seats()));
    }
    check_volumes(state)?;
    for aggregate in state.aggregates.values() {
        if aggregate.nodes.iter().any(|node| !state.nodes.contains_key(node)) {
            return Err(format!("aggregate {} has a node that does not exist", aggregate.name));
        }
    }
    for node in state.nodes.keys() {
        let zones: BTreeSet<_> = state
            .aggregates
            .values()
            .filter(|aggregate| aggregate.nodes.contains(node))
            .filter_map(|aggregate| aggregate.zone())
            .collect();
        if zones.len() > 1 {
            return Err(format!("node {node} is in the zones {zones:?}"));
        }
    }
    Ok(())
}

/// One writer a volume, and no failover where its lock is nobody's (FENCING.md, rule 22).
fn check_volumes(state: &State) -> Result<(), String> {
    let mut written = BTreeSet::new();
    for vm in state.vms.values() {
        for id in &vm.spec.volumes {
            let Some(volume) = state.volumes.get(id) else {
                return Err(format!("VM {}: its volume {id} does not exist", vm.name));
            };
            if !volume.read_only && !written.insert(id) {
                return Err(format!("volume {} has two writers, VM {} is one", volume.name, vm.name));
            }
            if volume.is_unguarded() && vm.is_failover_in_force() {
                return Err(format!("VM {} fails over with volume {} unguarded", vm.name, volume.name));
            }
        }
    }
    Ok(())
}

fn building(state: &State) -> BTreeSet<(NodeId, VmId)> {
    state.vms.values().filter_map(Vm::building).collect()
}

fn check_vm(state: &State, vm: &Vm) -> Result<(), String> {
    let name = &vm.name;
    if state.vm_names.get(&(vm.project.clone(), name.clone())) != Some(&vm.id) {
        return Err(format!("VM {name}: its name leads elsewhere"));
    }
    let waits = vm.status == VmStatus::Build && vm.claim.is_none();
    if state.waiting.contains(&vm.id) != waits {
        return Err(format!("VM {name}: {:?}, claim {:?}, waiting {}", vm.status, vm.claim, !waits));
    }
    if vm.batch.is_some() && !waits {
        return Err(format!("VM {name}: is to be placed with its batch, and does not wait"));
    }
    if vm.reserved.is_some() && !waits {
        return Err(format!("VM {name}: a host is kept for it, and it does not wait"));
    }
    if vm.status == VmStatus::Deleting && vm.claim.is_none() {
        return Err(format!("VM {name}: deleting without a claim, nobody will finish it"));
    }
    if vm.claim.is_none() && (vm.recovery.vacate.is_some() || vm.recovery.stopped_for.is_some()) {
        return Err(format!("VM {name}: is to leave a node, or was stopped for one, and is on none"));
    }
    if vm.claim.as_ref().is_some_and(|claim| claim.epoch.0 > state.revision) {
        return Err(format!("VM {name}: an epoch of the future"));
    }
    if vm.excluded.len() > crate::vm::MAX_BUILD_HOSTS && !vm.recovery.failing_over {
        return Err(format!("VM {name}: tried on {} hosts", vm.excluded.len()));
    }
    Ok(())
}
