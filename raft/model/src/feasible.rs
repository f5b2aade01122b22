//! The hard rules of placement, in one place: the scheduler's filters and apply ask the same functions,
//! so they can never disagree for ever.

use std::collections::BTreeMap;

use crate::cluster_policy::FAILOVER_NODES_MIN;
use crate::command::BatchFit;
use crate::group::{GroupPolicy, ServerGroup};
use crate::id::{GroupId, NodeId};
use crate::node::{HypervisorFacts, HypervisorKind, Node};
use crate::parts::{self, Parts, Wanted};
use crate::resources::{Inventory, ResourceClass, Resources};
use crate::room::PartsRoom;
use crate::state::State;
use crate::vm::{MAX_BUILD_HOSTS, VMM_OVERHEAD_MIB, Vm, VmSpec, VmStatus};

/// Prefix of an extra spec that asks for an amount of a class, as in Nova: `resources:CUSTOM_GPU=1`.
pub const RESOURCES: &str = "resources:";

/// What the spec asks for: the flavor's sizes, changed by its `resources:` extra specs.
pub fn requested(spec: &VmSpec) -> Resources {
    let mut requested = BTreeMap::from([
        (ResourceClass::Vcpu, u64::from(spec.size.vcpus)),
        (ResourceClass::MemoryMb, spec.size.memory_mib),
        (ResourceClass::DiskGb, spec.size.disk_gib),
    ]);
    for (key, value) in &spec.extra_specs {
        if let (Some(class), Ok(amount)) = (key.strip_prefix(RESOURCES), value.parse()) {
            requested.insert(ResourceClass::from(class.to_owned()), amount);
        }
    }
    requested.into_iter().collect()
}

/// What a VM of this spec claims of its node: what it asks for, and the VMM's own memory.
pub fn claim_of(spec: &VmSpec) -> Resources {
    let mut claim = requested(spec);
    // Dedicated CPUs are counted by themselves, as in Placement; quotas count both as VCPU.
    let class = parts::cpu_class(spec);
    if class != ResourceClass::Vcpu {
        let vcpus = claim.0.remove(&ResourceClass::Vcpu).unwrap_or(0);
        claim.0.insert(class, vcpus);
    }
    claim.add(&Resources::from_iter([(ResourceClass::MemoryMb, VMM_OVERHEAD_MIB)]));
    claim
}

/// How much of `class` a VM asks for that claims `amount` of it. Units are of what is asked for: a host that gives
/// memory in steps of 1024 MiB runs guests of 1024 MiB, whatever the VMM needs beside them.
pub fn asked_for(class: &ResourceClass, amount: u64) -> u64 {
    match class {
        ResourceClass::MemoryMb => amount.saturating_sub(VMM_OVERHEAD_MIB),
        _ => amount,
    }
}

/// A refusal by one rule, in words with the numbers that led to it.
pub type Refusal = String;

/// `ComputeStatus`: the node is up, enabled, has reported what it is, its hypervisor can work, and no condition of
/// it keeps new VMs away.
pub fn compute_status(node: &Node) -> Result<(), Refusal> {
    if !node.up {
        return Err(match node.report {
            Some(_) => "the node is down".to_owned(),
            None => "the node has not reported yet".to_owned(),
        });
    }
    if node.fence.is_some() {
        return Err(
            "the node is fenced: it has not yet shown that nothing of what it lost runs there".to_owned()
        );
    }
    if !node.enabled {
        return Err(match &node.disabled_reason {
            Some(reason) => format!("the node is cordoned: {reason}"),
            None => "the node is cordoned".to_owned(),
        });
    }
    if let Some(hypervisor) = node.report.as_ref().map(|report| &report.hypervisor)
        && !can_work(hypervisor)
    {
        return Err(format!("its hypervisor cannot run VMs: {}", hypervisor.reason));
    }
    if let Some((name, condition)) = node.refusing_condition() {
        return Err(format!("{name}: {}", condition.message));
    }
    Ok(())
}

/// [`compute_status`] without the words, for those who ask about many hosts.
pub fn has_status(node: &Node) -> bool {
    node.up
        && node.enabled
        && node.fence.is_none()
        && node.report.as_ref().is_none_or(|report| can_work(&report.hypervisor))
        && node.refusing_condition().is_none()
}

fn can_work(hypervisor: &HypervisorFacts) -> bool {
    hypervisor.kind != HypervisorKind::CloudHypervisor || hypervisor.reason.is_empty()
}

/// Whether a node may be fenced, as far as the state tells; whether its leases have ended is the leader's to know.
///
/// # Errors
/// Why not.
pub fn may_be_fenced(state: &State, node: &Node) -> Result<(), Refusal> {
    if node.fence.is_some() {
        return Err(format!("node `{}` is fenced already", node.name));
    }
    if node.maintenance.is_some() {
        return Err(format!("node `{}` is in maintenance", node.name));
    }
    if state.freeze.is_some() {
        return Err("the cluster is frozen".to_owned());
    }
    if state.nodes.len() < FAILOVER_NODES_MIN {
        return Err(format!("fencing needs {FAILOVER_NODES_MIN} nodes"));
    }
    Ok(())
}

/// `Capacity`: claims plus this one stay within `(total - reserved) × ratio`, for every class, and the
/// amount asked for is one the inventory takes. `wanted` is a claim, the VMM's own memory in it.
pub fn capacity(node: &Node, claimed: &Resources, wanted: &Resources) -> Result<(), Refusal> {
    in_words(shortages(node, claimed, wanted))
}

fn in_words<'a>(shortages: impl Iterator<Item = Shortage<'a>>) -> Result<(), Refusal> {
    let refusals: Vec<Refusal> = shortages.map(words).collect();
    if refusals.is_empty() { Ok(()) } else { Err(refusals.join("; ")) }
}

/// [`capacity`] without the words, for those who ask about many hosts.
pub fn has_capacity(node: &Node, claimed: &Resources, wanted: &Resources) -> bool {
    shortages(node, claimed, wanted).next().is_none()
}

/// A class of which a node has not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage<'a> {
    /// The node has none of it.
    Absent { class: &'a ResourceClass },
    /// The amount that is asked for is none that the inventory takes.
    Unit { class: &'a ResourceClass, amount: u64, inventory: &'a Inventory },
    /// So much is free of what may be claimed.
    Full { class: &'a ResourceClass, amount: u64, free: u64, capacity: u64 },
}

fn words(shortage: Shortage<'_>) -> Refusal {
    match shortage {
        Shortage::Absent { class } => format!("{class}: the node has none"),
        Shortage::Unit { class, amount, inventory } => {
            let Inventory { min_unit, max_unit, step_size, .. } = inventory;
            let steps = Some(step_size).filter(|step| **step > 1).map(|step| format!(", in steps of {step}"));
            let steps = steps.unwrap_or_default();
            match *max_unit {
                u64::MAX => format!("{class}: {amount} wanted, a VM gets {min_unit} at least{steps}"),
                most => format!("{class}: {amount} wanted, a VM gets {min_unit} to {most}{steps}"),
            }
        }
        Shortage::Full { class, amount, free, capacity } => {
            format!("{class}: {amount} wanted, {free} free of {capacity}")
        }
    }
}

/// Every class of which there is not enough, so that an operator who mends one does not meet the next.
pub fn shortages<'a>(
    node: &'a Node,
    claimed: &'a Resources,
    wanted: &'a Resources,
) -> impl Iterator<Item = Shortage<'a>> {
    shortages_by(node, claimed, wanted, asked_for)
}

/// How much of a class is asked for by who claims so much.
type Asked = fn(&ResourceClass, u64) -> u64;

fn shortages_by<'a>(
    node: &'a Node,
    claimed: &'a Resources,
    wanted: &'a Resources,
    asked_for: Asked,
) -> impl Iterator<Item = Shortage<'a>> {
    wanted.0.iter().filter(|(_, amount)| **amount > 0).filter_map(move |(class, amount)| {
        let amount = *amount;
        let Some(inventory) = node.inventory.get(class) else { return Some(Shortage::Absent { class }) };
        let asked = asked_for(class, amount);
        let (capacity, used) = (inventory.capacity(), claimed.get(class));
        let free = capacity.saturating_sub(used);
        // Who asks for none of it takes what the VMM needs, which no unit limits. VMs always ask for memory; a question
        // about other classes need not.
        if asked > 0 && !inventory.takes(asked) {
            // Of more than there is, the bound on one VM is not what is wrong.
            let is_too_small = inventory.is_bounded_by_total() && amount > capacity;
            return Some(match is_too_small {
                true => Shortage::Full { class, amount, free, capacity },
                false => Shortage::Unit { class, amount: asked, inventory },
            });
        }
        (used.saturating_add(amount) > capacity).then_some(Shortage::Full { class, amount, free, capacity })
    })
}

/// `RequestedNode`: the operator named the node.
pub fn requested_node(node: &Node, vm: &Vm) -> Result<(), Refusal> {
    match vm.spec.node {
        Some(wanted) if wanted != node.id => Err("another node was asked for".to_owned()),
        _ => Ok(()),
    }
}

/// `Excluded`: the VM failed to build here before.
pub fn not_excluded(node: &Node, vm: &Vm) -> Result<(), Refusal> {
    match vm.excluded.iter().find(|excluded| excluded.node == node.id) {
        Some(excluded) => Err(format!("failed to build here: {}", excluded.message)),
        None => Ok(()),
    }
}

/// `Excluded`: one that failed to build on [`MAX_BUILD_HOSTS`] hosts is not tried on the next before a pause.
pub fn has_tries_left(vm: &Vm) -> Result<(), Refusal> {
    match vm.has_spent_its_round() {
        true => Err(format!(
            "it failed to build on {MAX_BUILD_HOSTS} other nodes: this one is tried after a pause"
        )),
        false => Ok(()),
    }
}

/// Where the members of a group are, as far as one host is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Other members with a claim on this host.
    pub here: u32,
    /// Other members with a claim on any host; not worked out where no rule asks, [`group_members`].
    pub placed: u32,
}

/// `ServerGroup`: affinity and anti-affinity with the members that have a host. Soft policies never
/// refuse.
pub fn server_group(group: &ServerGroup, members: Members) -> Result<(), Refusal> {
    if fits_group(group, members) {
        return Ok(());
    }
    let (name, here, max) = (&group.name, members.here, group.max_server_per_host.unwrap_or(1));
    Err(match group.policy {
        GroupPolicy::Affinity => format!("affinity: group `{name}` is on another node"),
        _ => format!("anti-affinity: {here} of group `{name}` here, {max} allowed"),
    })
}

/// [`server_group`] without the words, for those who ask about many hosts.
pub fn fits_group(group: &ServerGroup, members: Members) -> bool {
    match group.policy {
        GroupPolicy::Affinity => members.placed == 0 || members.here > 0,
        GroupPolicy::AntiAffinity => members.here < group.max_server_per_host.unwrap_or(1),
        GroupPolicy::SoftAffinity | GroupPolicy::SoftAntiAffinity => true,
    }
}

/// The group of `vm` and where its other members are, seen from `node`. Affinity alone asks for those on other hosts, and
/// has few of them: to count the hosts of an anti-affinity group for each member would be many.
pub fn group_members<'a>(state: &'a State, node: NodeId, vm: &Vm) -> Option<(&'a ServerGroup, Members)> {
    let group = state.groups.get(&vm.spec.scheduling.group?)?;
    let seat = vm.seat();
    let others = |of: &(GroupId, NodeId), members: u32| members - u32::from(seat == Some(*of));
    let hosts = || state.group_hosts.range((group.id, NodeId(0))..=(group.id, NodeId(u64::MAX)));
    let placed = match group.policy {
        GroupPolicy::Affinity => hosts().map(|(of, members)| others(of, *members)).sum(),
        _ => 0,
    };
    let of = (group.id, node);
    let here = state.group_hosts.get(&of).map_or(0, |members| others(&of, *members));
    Some((group, Members { here, placed }))
}

/// Preemption: whether `victim` may be made to leave its node for `vm`. It must allow it, since its disks there are
/// lost; have strictly less priority, so that nobody evicts in a circle; and not belong to the same server group.
pub fn may_evict(vm: &Vm, victim: &Vm) -> Result<(), Refusal> {
    let (mine, its) = (&vm.spec.scheduling, &victim.spec.scheduling);
    if !its.preemptible {
        return Err("it is not preemptible".to_owned());
    }
    if victim.status == VmStatus::Deleting {
        return Err("it is being deleted".to_owned());
    }
    if its.priority >= mine.priority {
        return Err(format!("its priority {} is not less than {}", its.priority, mine.priority));
    }
    if mine.group.is_some() && mine.group == its.group {
        return Err("it is in the same server group".to_owned());
    }
    if mine.same_host.contains(&victim.id) {
        return Err("it is wanted on the same host".to_owned());
    }
    Ok(())
}

/// `DedicatedCpu` and `PciDevices`: the parts that `vm` would hold of `node`, of which others hold some.
pub fn parts_for(node: &Node, room: &PartsRoom, vm: &Vm) -> Result<Parts, (&'static str, Refusal)> {
    if !parts::asks(&vm.spec) {
        return Ok(Parts::default());
    }
    let wanted = Wanted::of(&vm.spec).map_err(|refusal| ("DedicatedCpu", refusal))?;
    let offer = node.offer();
    let cpus = parts::choose_cpus(offer, room, &wanted).map_err(|refusal| ("DedicatedCpu", refusal))?;
    let devices =
        parts::choose_devices(offer, room, &wanted, &cpus).map_err(|refusal| ("PciDevices", refusal))?;
    Ok(Parts { cpus, devices })
}

/// All hard rules in order; the refusing rule's name comes with the refusal.
pub fn feasible(state: &State, node: &Node, vm: &Vm) -> Result<(), (&'static str, Refusal)> {
    feasible_by(state, node, vm, asked_for)
}

/// The same as before [`RULES`](crate::version::RULES) 1, when units were of the whole claim.
pub(crate) fn feasible_in_claims(state: &State, node: &Node, vm: &Vm) -> Result<(), (&'static str, Refusal)> {
    feasible_by(state, node, vm, |_, amount| amount)
}

fn feasible_by(state: &State, node: &Node, vm: &Vm, asked_for: Asked) -> Result<(), (&'static str, Refusal)> {
    compute_status(node).map_err(|refusal| ("ComputeStatus", refusal))?;
    requested_node(node, vm).map_err(|refusal| ("RequestedNode", refusal))?;
    not_excluded(node, vm).map_err(|refusal| ("Excluded", refusal))?;
    if let Some((group, members)) = group_members(state, node.id, vm) {
        server_group(group, members).map_err(|refusal| ("ServerGroup", refusal))?;
    }
    let claim = claim_of(&vm.spec);
    in_words(shortages_by(node, &node.allocated, &claim, asked_for))
        .map_err(|refusal| ("Capacity", refusal))?;
    if parts::asks(&vm.spec) {
        parts_for(node, &node.room.parts, vm)?;
    }
    Ok(())
}

/// Whether the move of `vm`, which is under way, goes on by itself: the node it leaves is up, or that it waits for takes
/// it as things stand. Of one for which neither holds nobody can tell when it ends: others do not wait for it.
pub fn can_arrive(state: &State, vm: &Vm) -> bool {
    let node = |id: NodeId| state.nodes.get(&id);
    match &vm.claim {
        Some(claim) => node(claim.node).is_some_and(|node| node.up),
        None => vm.recovery.move_to.and_then(node).is_some_and(|node| feasible(state, node, vm).is_ok()),
    }
}

/// What is said of a VM that fits nowhere: `no node fits it (2 × Capacity, 1 × ComputeStatus)`, by how many nodes each
/// filter refused.
pub fn no_node_fits(counts: &BTreeMap<String, u32>) -> String {
    let words: Vec<String> = counts.iter().map(|(by, count)| format!("{count} × {by}")).collect();
    match words.as_slice() {
        [] => "no node fits it (the cluster has no nodes to try)".to_owned(),
        words => format!("no node fits it ({})", words.join(", ")),
    }
}

/// What is said of the VMs of an atomic batch of which not all fit at once; `counts` are those of the first too many.
pub fn no_batch_fits(fit: BatchFit, counts: &BTreeMap<String, u32>) -> String {
    let BatchFit { fit, of } = fit;
    let why = no_node_fits(counts);
    format!(
        "{fit} of the {of} VMs of its batch fit, which is placed as a whole or not at all; for the next, {why}"
    )
}
