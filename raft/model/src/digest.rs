//! What decisions ask of every host for every VM, in one cache line: a node's whole record is many, and those of
//! thousands of nodes do not fit into a processor's caches. It follows from the record; [`crate::nodes::Nodes`] keeps it
//! beside it.

use std::collections::BTreeMap;

use crate::feasible;
use crate::node::{Node, version_number};
use crate::parts::{PCPU, Wanted};
use crate::resources::{Inventory, ResourceClass, Resources};
use crate::room::PartsRoom;
use crate::scheduling::Effect;
use crate::vm::VMM_OVERHEAD_MIB;

/// See the module. Amounts that fit no number here are absurd; where one is, the record is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Of its hypervisor, as a number.
    pub version: i64,
    room: Room,
    pub load_thousandths: u32,
    /// VMs with a claim on it.
    pub vms: u32,
    pub failed_builds: u32,
    pub parts: FreeParts,
    /// How many conditions it has.
    pub conditions: u16,
    /// How many of its taints have this effect.
    pub prefer_no_schedule: u16,
    /// Whether one of its taints has this effect.
    pub no_schedule: bool,
    /// [`feasible::has_status`].
    pub has_status: bool,
    /// Whether `room` tells all: not where an amount is absurd, or where a claim has a least amount or steps.
    is_told: bool,
    /// Whether the inventory of dedicated CPUs takes whoever finds so many of them.
    has_pcpus: bool,
}

const _: () = assert!(size_of::<Digest>() == 64, "one cache line");

impl Digest {
    /// What the record says.
    pub fn of(node: &Node) -> Self {
        let count = |all: usize| u16::try_from(all).unwrap_or(u16::MAX);
        let taints = |effect| node.taints.iter().filter(move |taint| taint.effect == effect);
        let report = node.report.as_ref();
        let load_thousandths = report.map_or(0, |report| report.load_thousandths);
        let mut digest = Self {
            version: report.map_or(0, |report| version_number(&report.hypervisor.version)),
            room: Room::default(),
            load_thousandths: u32::try_from(load_thousandths).unwrap_or(u32::MAX),
            vms: node.room.vms,
            failed_builds: node.failed_builds,
            parts: FreeParts::default(),
            conditions: count(node.conditions().count()),
            prefer_no_schedule: count(taints(Effect::PreferNoSchedule).count()),
            no_schedule: taints(Effect::NoSchedule).next().is_some(),
            has_status: feasible::has_status(node),
            is_told: false,
            has_pcpus: false,
        };
        digest.claim(&node.inventory, &node.allocated, &node.room.parts);
        digest
    }

    /// These claims, on these parts, are what the node has now.
    pub fn claim(
        &mut self,
        inventory: &BTreeMap<ResourceClass, Inventory>,
        claimed: &Resources,
        parts: &PartsRoom,
    ) {
        let room = Room::of(inventory, claimed);
        self.is_told = room.is_some();
        self.room = room.unwrap_or_default();
        self.parts = FreeParts::of(parts);
        let cpus = u64::from(self.parts.cpus);
        let pcpus = inventory.iter().find(|(class, _)| cpus > 0 && class.name() == PCPU);
        self.has_pcpus = pcpus.is_some_and(|(class, pcpus)| {
            let left = pcpus.capacity().saturating_sub(claimed.get(class));
            pcpus.takes_any() && cpus <= pcpus.max_unit.min(left)
        });
    }

    /// What is free; none where the record has to be asked.
    #[inline]
    pub fn free(&self) -> Option<Free> {
        let Room { vcpus, memory_mib, disk_gib } = self.room;
        let free = |class: ClassRoom| i64::from(class.free);
        self.is_told.then(|| Free {
            vcpus: free(vcpus),
            memory_mib: free(memory_mib),
            disk_gib: free(disk_gib),
        })
    }

    /// Whether a claim of these amounts is within capacity and units; none where the record has to be asked.
    #[inline]
    pub fn takes(&self, wanted: &Free) -> Option<bool> {
        let Room { vcpus, memory_mib, disk_gib } = self.room;
        self.is_told.then(|| {
            vcpus.takes(wanted.vcpus)
                && memory_mib.takes(wanted.memory_mib)
                && disk_gib.takes(wanted.disk_gib)
        })
    }

    /// The same of dedicated CPUs.
    #[inline]
    pub fn takes_pcpus(&self, wanted: u32) -> Option<bool> {
        (wanted == 0 || self.has_pcpus && wanted <= self.parts.cpus).then_some(true)
    }
}

/// Capacity less claims of the classes every VM asks for; negative where more is claimed than is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    pub vcpus: i64,
    pub memory_mib: i64,
    pub disk_gib: i64,
}

impl Free {
    pub fn of(inventory: &BTreeMap<ResourceClass, Inventory>, claimed: &Resources) -> Self {
        let free = |class| {
            let capacity = inventory.get(&class).map_or(0, Inventory::capacity);
            clamp(capacity).saturating_sub(clamp(claimed.get(&class)))
        };
        Self {
            vcpus: free(ResourceClass::Vcpu),
            memory_mib: free(ResourceClass::MemoryMb),
            disk_gib: free(ResourceClass::DiskGb),
        }
    }
}

/// Room for one more claim, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    vcpus: ClassRoom,
    memory_mib: ClassRoom,
    disk_gib: ClassRoom,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClassRoom {
    free: i32,
    /// Of one claim.
    most: u32,
}

impl Room {
    /// None where these numbers would not tell all.
    fn of(inventory: &BTreeMap<ResourceClass, Inventory>, claimed: &Resources) -> Option<Self> {
        let free = Free::of(inventory, claimed);
        let class = |class, free, overhead| ClassRoom::of(inventory.get(&class), free, overhead);
        Some(Self {
            vcpus: class(ResourceClass::Vcpu, free.vcpus, 0)?,
            // A claim has the VMM's own memory in it, units have not.
            memory_mib: class(ResourceClass::MemoryMb, free.memory_mib, VMM_OVERHEAD_MIB)?,
            disk_gib: class(ResourceClass::DiskGb, free.disk_gib, 0)?,
        })
    }
}

impl ClassRoom {
    fn of(inventory: Option<&Inventory>, free: i64, overhead: u64) -> Option<Self> {
        let free = i32::try_from(free).ok()?;
        let Some(inventory) = inventory else { return Some(Self { free, most: 0 }) };
        let most = match inventory.max_unit.saturating_add(overhead) {
            u64::MAX => u32::MAX,
            most => u32::try_from(most).ok()?,
        };
        inventory.takes_any().then_some(Self { free, most })
    }

    #[inline]
    fn takes(self, wanted: i64) -> bool {
        wanted == 0 || wanted <= i64::from(self.free) && wanted <= i64::from(self.most)
    }
}

/// An amount that is absurd counts as the greatest.
pub fn clamp(amount: u64) -> i64 {
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
