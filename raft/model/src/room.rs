//! The claims on a node, counted, and what they leave of the parts it offers; worked out when either changes: decisions ask many hosts for
//! every VM, and would otherwise walk maps and VMs each time. It follows from the rest of the state, so snapshots leave
//! it out; [`crate::invariant`] compares it with what it follows from.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::NodeId;
use crate::node::{Node, NodeReport};
use crate::parts::{Offer, Parts, Wanted};
use crate::resources::Resources;
use crate::state::State;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// How many claims there are.
    pub vms: u32,
    pub parts: PartsRoom,
}

/// Parts of a host that claims hold, and how many they leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartsRoom {
    cpus: BTreeSet<u32>,
    devices: BTreeSet<String>,
    /// By NUMA node.
    free_cpus: BTreeMap<u32, u32>,
    /// By alias.
    free_devices: BTreeMap<String, u32>,
}

impl PartsRoom {
    /// Of a host on which no claim holds any.
    pub fn empty(offer: &Offer) -> Self {
        let mut room = Self::default();
        room.recount(offer);
        room
    }

    /// A claim takes these.
    pub fn take(&mut self, parts: &Parts, offer: &Offer) {
        self.cpus.extend(&parts.cpus);
        self.devices.extend(parts.devices.iter().cloned());
        self.recount(offer);
    }

    /// A claim that had these is gone.
    pub fn give_back(&mut self, parts: &Parts, offer: &Offer) {
        parts.cpus.iter().for_each(|cpu| _ = self.cpus.remove(cpu));
        parts.devices.iter().for_each(|device| _ = self.devices.remove(device));
        self.recount(offer);
    }

    /// What is offered may have changed.
    pub fn recount(&mut self, offer: &Offer) {
        self.free_cpus.clear();
        self.free_devices.clear();
        for (_, numa_node) in offer.cpus.iter().filter(|(cpu, _)| !self.cpus.contains(cpu)) {
            *self.free_cpus.entry(*numa_node).or_default() += 1;
        }
        for (_, device) in offer.devices.iter().filter(|(address, _)| !self.devices.contains(*address)) {
            *self.free_devices.entry(device.alias.clone()).or_default() += 1;
        }
    }

    /// Whether a claim holds this CPU.
    pub fn holds_cpu(&self, cpu: u32) -> bool {
        self.cpus.contains(&cpu)
    }

    /// Whether a claim holds the device at this address.
    pub fn holds_device(&self, address: &str) -> bool {
        self.devices.contains(address)
    }

    /// CPUs that no claim holds, by NUMA node.
    pub fn free_cpus(&self) -> &BTreeMap<u32, u32> {
        &self.free_cpus
    }

    /// Devices that no claim holds, by alias.
    pub fn free_devices(&self) -> &BTreeMap<String, u32> {
        &self.free_devices
    }

    /// `PciDevices` without the words: [`crate::parts::choose_devices`] would find some.
    pub fn has_devices(&self, wanted: &Wanted) -> bool {
        let free = |alias: &String| self.free_devices.get(alias).copied().unwrap_or(0);
        wanted.devices.iter().all(|(alias, count)| free(alias) >= *count)
    }
}

impl State {
    /// Every node's room, from its claims.
    pub(crate) fn work_out_rooms(&mut self) {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for id in ids {
            let room = self.room_of(id);
            if let Some(mut node) = self.nodes.get_mut(&id) {
                node.room = room;
            }
        }
    }

    /// What a node's room must be.
    pub(crate) fn room_of(&self, id: NodeId) -> Room {
        let mut room = Room::default();
        let Some(node) = self.nodes.get(&id) else { return room };
        for claim in self.vms_on(id).filter_map(|vm| vm.claim.as_ref()) {
            room.vms += 1;
            room.parts.take(&claim.parts, node.offer());
        }
        room.parts.recount(node.offer());
        room
    }
}

impl Node {
    /// A claim begins.
    pub fn add_claim(&mut self, resources: &Resources, parts: &Parts) {
        self.allocated.add(resources);
        self.room.vms += 1;
        if !parts.is_empty() {
            self.room.parts.take(parts, offer(&self.report));
        }
    }

    /// A claim ends.
    ///
    /// # Panics
    /// When more is taken away than is claimed: see [`Resources::sub`].
    pub fn end_claim(&mut self, resources: &Resources, parts: &Parts) {
        self.allocated.sub(resources);
        self.room.vms -= 1;
        if !parts.is_empty() {
            self.room.parts.give_back(parts, offer(&self.report));
        }
    }

    /// What it offers has changed.
    pub fn recount_room(&mut self) {
        self.room.parts.recount(offer(&self.report));
    }

    /// The parts it offers.
    pub fn offer(&self) -> &Offer {
        offer(&self.report)
    }
}

fn offer(report: &Option<NodeReport>) -> &Offer {
    static NONE: Offer = Offer { cpus: BTreeMap::new(), devices: BTreeMap::new() };
    report.as_ref().map_or(&NONE, |report| &report.offer)
}
