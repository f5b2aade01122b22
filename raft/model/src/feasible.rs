//! The hard rules of placement, in one place: the scheduler's filters and apply ask the same functions,
//! so they can never disagree for ever.

use crate::node::{HypervisorKind, Node};
use crate::resources::{ResourceClass, Resources};
use crate::vm::{VMM_OVERHEAD_MIB, Vm, VmSpec};

/// What a VM of this spec claims of its node.
pub fn claim_of(spec: &VmSpec) -> Resources {
    Resources::from_iter([
        (ResourceClass::Vcpu, u64::from(spec.size.vcpus)),
        (ResourceClass::MemoryMb, spec.size.memory_mib.saturating_add(VMM_OVERHEAD_MIB)),
        (ResourceClass::DiskGb, spec.size.disk_gib),
    ])
}

/// A refusal by one rule, in words with the numbers that led to it.
pub type Refusal = String;

/// `ComputeStatus`: the node is up, enabled, has reported what it is, and its hypervisor can work.
pub fn compute_status(node: &Node) -> Result<(), Refusal> {
    if !node.up {
        return Err(match node.report {
            Some(_) => "the node is down".to_owned(),
            None => "the node has not reported yet".to_owned(),
        });
    }
    if !node.enabled {
        return Err(match &node.disabled_reason {
            Some(reason) => format!("the node is cordoned: {reason}"),
            None => "the node is cordoned".to_owned(),
        });
    }
    if let Some(hypervisor) = node.report.as_ref().map(|report| &report.hypervisor)
        && hypervisor.kind == HypervisorKind::CloudHypervisor
        && !hypervisor.reason.is_empty()
    {
        return Err(format!("its hypervisor cannot run VMs: {}", hypervisor.reason));
    }
    Ok(())
}

/// `Capacity`: claims plus this one stay within `(total - reserved) × ratio`, for every class.
pub fn capacity(node: &Node, claimed: &Resources, wanted: &Resources) -> Result<(), Refusal> {
    match shortage(node, claimed, wanted) {
        None => Ok(()),
        Some(Shortage { class, amount, free, capacity }) => {
            Err(format!("{class}: {amount} wanted, {free} free of {capacity}"))
        }
    }
}

/// [`capacity`] without the words, for those who ask about many hosts.
pub fn has_capacity(node: &Node, claimed: &Resources, wanted: &Resources) -> bool {
    shortage(node, claimed, wanted).is_none()
}

struct Shortage<'a> {
    class: &'a ResourceClass,
    amount: u64,
    free: u64,
    capacity: u64,
}

/// The first class of which there is not enough.
fn shortage<'a>(node: &Node, claimed: &Resources, wanted: &'a Resources) -> Option<Shortage<'a>> {
    wanted.0.iter().find_map(|(class, amount)| {
        let capacity = node
            .report
            .as_ref()
            .and_then(|report| report.inventory.get(class))
            .map_or(0, |inventory| inventory.capacity());
        let used = claimed.get(class);
        let free = capacity.saturating_sub(used);
        (used.saturating_add(*amount) > capacity).then_some(Shortage {
            class,
            amount: *amount,
            free,
            capacity,
        })
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

/// All hard rules in order; the refusing rule's name comes with the refusal.
pub fn feasible(node: &Node, vm: &Vm, claimed: &Resources) -> Result<(), (&'static str, Refusal)> {
    compute_status(node).map_err(|refusal| ("ComputeStatus", refusal))?;
    requested_node(node, vm).map_err(|refusal| ("RequestedNode", refusal))?;
    not_excluded(node, vm).map_err(|refusal| ("Excluded", refusal))?;
    capacity(node, claimed, &claim_of(&vm.spec)).map_err(|refusal| ("Capacity", refusal))
}
