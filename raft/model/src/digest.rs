//! What decisions ask of every host for every VM, in one or two cache lines: a node's whole record is many, and those
//! of thousands of nodes do not fit into a processor's caches. It follows from the record; [`crate::nodes::Nodes`]
//! keeps it beside it.

use std::collections::BTreeMap;

use crate::feasible;
use crate::node::{Node, version_number};
use crate::parts::Wanted;
use crate::resources::{Inventory, ResourceClass, Resources};
use crate::room::PartsRoom;
use crate::scheduling::Effect;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    pub free: Free,
    /// Of its hypervisor, as a number.
    pub version: i64,
    pub load_thousandths: u64,
    /// VMs with a claim on it.
    pub vms: u32,
    /// How many conditions it has.
    pub conditions: u32,
    pub failed_builds: u32,
    pub parts: FreeParts,
    /// How many of its taints have this effect.
    pub no_schedule: u32,
    pub prefer_no_schedule: u32,
    /// [`feasible::has_status`].
    pub has_status: bool,
}

impl Digest {
    /// What the record says.
    pub fn of(node: &Node) -> Self {
        let count = |all: usize| u32::try_from(all).unwrap_or(u32::MAX);
        let taints = |effect| count(node.taints.iter().filter(|taint| taint.effect == effect).count());
        let report = node.report.as_ref();
        Self {
            free: Free::of(&node.inventory, &node.allocated),
            version: report.map_or(0, |report| version_number(&report.hypervisor.version)),
            load_thousandths: report.map_or(0, |report| report.load_thousandths),
            vms: node.room.vms,
            conditions: count(node.conditions().count()),
            failed_builds: node.failed_builds,
            parts: FreeParts::of(&node.room.parts),
            no_schedule: taints(Effect::NoSchedule),
            prefer_no_schedule: taints(Effect::PreferNoSchedule),
            has_status: feasible::has_status(node),
        }
    }
}

/// Capacity less claims of the classes every VM asks for; negative where more is claimed than is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    pub vcpus: i64,
    pub memory_mib: i64,
    pub disk_gib: i64,
    /// Whether not any amount of these may be claimed: there is a least or greatest amount, or steps.
    pub in_units: bool,
}

impl Free {
    pub fn of(inventory: &BTreeMap<ResourceClass, Inventory>, claimed: &Resources) -> Self {
        let mut free = Self::default();
        // Custom classes come last in both.
        for (class, inventory) in inventory {
            let Some(amount) = free.amount(class) else { break };
            *amount = clamp(inventory.capacity());
            let Inventory { min_unit, max_unit, step_size, .. } = inventory;
            free.in_units |= (*min_unit, *max_unit, *step_size) != (1, u64::MAX, 1);
        }
        for (class, claimed) in &claimed.0 {
            let Some(amount) = free.amount(class) else { break };
            *amount = amount.saturating_sub(clamp(*claimed));
        }
        free
    }

    fn amount(&mut self, class: &ResourceClass) -> Option<&mut i64> {
        match class {
            ResourceClass::Vcpu => Some(&mut self.vcpus),
            ResourceClass::MemoryMb => Some(&mut self.memory_mib),
            ResourceClass::DiskGb => Some(&mut self.disk_gib),
            ResourceClass::Custom(_) => None,
        }
    }
}

fn clamp(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// How many parts of a host no claim holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeParts {
    /// Dedicated CPUs.
    pub cpus: u32,
    /// Those of the NUMA node that has most.
    pub cpus_of_one: u32,
    /// PCI devices, whatever their alias.
    pub devices: u32,
}

impl FreeParts {
    pub fn of(room: &PartsRoom) -> Self {
        let cpus = || room.free_cpus().values().copied();
        Self {
            cpus: cpus().sum(),
            cpus_of_one: cpus().max().unwrap_or(0),
            devices: room.free_devices().values().sum(),
        }
    }

    /// `DedicatedCpu` without the words: [`crate::parts::choose_cpus`] would find some.
    pub fn has_cpus(&self, wanted: &Wanted) -> bool {
        wanted.cpus <= if wanted.one_numa_node { self.cpus_of_one } else { self.cpus }
    }
}
