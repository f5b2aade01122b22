//! One host as a decision sees it: its record, what else the state says about it, and the claims of the
//! batch so far on top.

use std::rc::Rc;

use holm_model::aggregate::DEFAULT_ZONE;
use holm_model::digest::{self, Digest, Free};
use holm_model::feasible;
use holm_model::node::Node;
use holm_model::parts::PCPU;
use holm_model::room::PartsRoom;
use holm_model::vm::{Vm, VmStatus};
use holm_model::{NodeId, ResourceClass, Resources, State};

use crate::places::{Place, Places};
use crate::queue;
use crate::reserve::Kept;

/// So many at once when all are made.
const BLOCK: usize = 128;

/// A host and its load. Two cache lines, since every decision makes one of every node: what hosts share is shared, and
/// what only few have is boxed.
#[derive(Clone, Debug)]
pub struct Host<'a> {
    /// Its record. What is asked of every host is in the digest: records of many nodes do not fit into the processor's
    /// caches.
    pub node: &'a Node,
    id: NodeId,
    digest: Digest,
    /// None where it is in no aggregate.
    place: Option<Rc<Place<'a>>>,
    /// VMs that are being built here: Nova's I/O operations.
    pub building: u32,
    rare: Option<Box<Rare<'a>>>,
}

/// What few hosts have.
#[derive(Clone, Debug, Default)]
struct Rare<'a> {
    /// Sum of the claims, where it is not the record's.
    claimed: Option<Resources>,
    /// Parts of it that VMs hold, where they are not the record's.
    parts: Option<PartsRoom>,
    /// For a VM that has long waited.
    kept: Option<Kept<'a>>,
}

/// A claim, ready to be compared with what a digest tells.
#[derive(Clone, Debug)]
pub struct Wanted {
    usual: Free,
    /// Dedicated CPUs.
    pcpus: u32,
    /// Whether the digest could tell: not where another class is asked for, or no memory.
    is_told: bool,
}

impl Wanted {
    pub fn of(claim: &Resources) -> Self {
        let amount = |class| digest::clamp(claim.get(&class));
        let (vcpus, memory_mib) = (amount(ResourceClass::Vcpu), amount(ResourceClass::MemoryMb));
        let usual = Free { vcpus, memory_mib, disk_gib: amount(ResourceClass::DiskGb) };
        let customs = claim.0.iter().filter(|(class, _)| matches!(class, ResourceClass::Custom(_)));
        let (pcpus, others): (Vec<_>, Vec<_>) = customs.partition(|(class, _)| class.name() == PCPU);
        let pcpus = pcpus.first().map_or(Ok(0), |(_, amount)| u32::try_from(**amount));
        let asks_for_memory =
            feasible::asked_for(&ResourceClass::MemoryMb, claim.get(&ResourceClass::MemoryMb)) > 0;
        let is_told = pcpus.is_ok() && others.is_empty() && asks_for_memory;
        Self { usual, pcpus: pcpus.unwrap_or(0), is_told }
    }

    /// Whether `host` has so much free; none where numbers alone cannot tell. The rule itself is
    /// `holm_model::feasible::has_capacity`, and this its answer.
    #[inline]
    pub fn fits(&self, host: &Host<'_>) -> Option<bool> {
        let digest = host.digest();
        match digest.takes(&self.usual) {
            Some(true) if self.is_told => digest.takes_pcpus(self.pcpus),
            Some(false) => Some(false),
            _ => None,
        }
    }
}

impl<'a> Host<'a> {
    /// Every host of `state`, by id. One walk over the nodes, in blocks that stay in the nearest cache.
    pub fn all(state: &'a State) -> Vec<Self> {
        let mut hosts = Vec::with_capacity(state.nodes.len());
        let mut nodes = state.nodes.digests();
        let mut places = Places::of(state);
        let mut building = state.building.iter().map(|(node, _)| *node).peekable();
        let (mut ids, mut block) = (Vec::with_capacity(BLOCK), Vec::with_capacity(BLOCK));
        loop {
            block.clear();
            block.extend(nodes.by_ref().take(BLOCK));
            ids.clear();
            ids.extend(block.iter().map(|(id, ..)| *id));
            let Some(last) = ids.last() else { break };
            let from = hosts.len();
            hosts.extend(block.iter().map(|(id, digest, node)| Self::bare(*id, digest, node)));
            let made = &mut hosts[from..];
            places.tell(&ids, |at, place| made[at].place = Some(Rc::clone(place)));
            while let Some(node) = building.next_if(|node| node <= last) {
                if let Ok(at) = ids.binary_search(&node) {
                    made[at].building += 1;
                }
            }
        }
        keep(&mut hosts, state);
        hosts
    }

    fn bare(id: NodeId, digest: &Digest, node: &'a Node) -> Self {
        Self { node, id, digest: *digest, place: None, building: 0, rare: None }
    }

    /// What the record says, with the claims of the batch so far.
    #[inline]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// What is free of the classes that every VM asks for.
    #[inline]
    pub fn free(&self) -> Free {
        self.digest.free().unwrap_or_else(|| Free::of(&self.node.inventory, self.claimed()))
    }

    /// Its availability zone.
    pub fn zone(&self) -> &'a str {
        self.place.as_ref().and_then(|place| place.zone()).unwrap_or(DEFAULT_ZONE)
    }

    /// Values of a metadata key over its aggregates, each split at commas as Nova does.
    pub fn metadata(&self, key: &str) -> impl Iterator<Item = &'a str> + Clone {
        self.raw_metadata(key).flat_map(|value| value.split(',')).map(str::trim)
    }

    /// The same of all keys that begin so.
    pub fn metadata_of_keys(&self, beginning: &str) -> impl Iterator<Item = &'a str> + Clone {
        let values = self.place.iter().flat_map(move |place| place.metadata_of_keys(beginning));
        values.flat_map(|value| value.split(',')).map(str::trim)
    }

    /// The least number its aggregates give by this key; none where one of them is no number, as in Nova.
    pub fn least(&self, key: &str) -> Option<u32> {
        let numbers = self.raw_metadata(key).map(|value| value.trim().parse().ok());
        numbers.reduce(|a: Option<u32>, b| a.zip(b).map(|(a, b)| a.min(b))).flatten()
    }

    /// Values of a metadata key over its aggregates as they stand.
    pub fn raw_metadata(&self, key: &str) -> impl Iterator<Item = &'a str> + Clone {
        self.place.iter().flat_map(move |place| place.metadata(key))
    }

    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Sum of the claims.
    pub fn claimed(&self) -> &Resources {
        self.rare.as_ref().and_then(|rare| rare.claimed.as_ref()).unwrap_or(&self.node.allocated)
    }

    /// Parts of it that VMs hold for themselves.
    pub fn parts(&self) -> &PartsRoom {
        self.rare.as_ref().and_then(|rare| rare.parts.as_ref()).unwrap_or(&self.node.room.parts)
    }

    /// A VM is placed here.
    pub fn claim(&mut self, resources: &Resources) {
        self.change_claimed(|claimed| claimed.add(resources));
        self.digest.vms += 1;
        self.building += 1;
        if let Some(kept) = self.kept_mut() {
            kept.add(resources);
        }
    }

    /// The VM that was placed here takes the parts it asks for.
    pub fn take_parts(&mut self, vm: &Vm) {
        if let Ok(parts) = feasible::parts_for(self.node, self.parts(), vm)
            && !parts.is_empty()
        {
            let offer = self.node.offer();
            self.change_parts(|room| room.take(&parts, offer));
            if let Some(kept) = self.kept_mut() {
                kept.take(&parts, offer);
            }
        }
    }

    /// The host as it would be without any VM.
    pub fn emptied(&self) -> Self {
        let mut empty = self.clone();
        empty.change_claimed(|claimed| claimed.0.clear());
        let offer = self.node.offer();
        if !offer.is_empty() {
            empty.change_parts(|room| *room = PartsRoom::empty(offer));
        }
        empty.rare().kept = None;
        empty.digest.vms = 0;
        empty.building = 0;
        empty
    }

    fn rare(&mut self) -> &mut Rare<'a> {
        self.rare.get_or_insert_default()
    }

    fn change_claimed(&mut self, how: impl FnOnce(&mut Resources)) {
        let node = self.node;
        how(self.rare().claimed.get_or_insert_with(|| node.allocated.clone()));
        self.renew_digest();
    }

    fn change_parts(&mut self, how: impl FnOnce(&mut PartsRoom)) {
        let node = self.node;
        how(self.rare().parts.get_or_insert_with(|| node.room.parts.clone()));
        self.renew_digest();
    }

    fn renew_digest(&mut self) {
        let mut digest = self.digest;
        digest.claim(&self.node.inventory, self.claimed(), self.parts());
        self.digest = digest;
    }

    /// What is kept of it for a VM that has long waited.
    pub fn kept(&self) -> Option<&Kept<'a>> {
        self.rare.as_ref()?.kept.as_ref()
    }

    fn kept_mut(&mut self) -> Option<&mut Kept<'a>> {
        self.rare.as_mut()?.kept.as_mut()
    }

    /// From now on, what is kept here is kept from those behind its holder.
    pub fn keep(&mut self) {
        if let Some(kept) = self.kept_mut() {
            kept.in_force = true;
        }
    }

    /// The host without the claim that `vm` has on it, if it has one.
    pub fn without(&mut self, vm: &Vm) {
        let Some(claim) = vm.claim.as_ref().filter(|claim| claim.node == self.id) else { return };
        self.change_claimed(|claimed| claimed.sub(&claim.resources));
        // Owning and counting the parts of a host is dear, and few VMs hold any.
        if !claim.parts.is_empty() {
            let node = self.node;
            self.change_parts(|room| room.give_back(&claim.parts, node.offer()));
        }
        let vms = &mut self.digest.vms;
        *vms = vms.saturating_sub(1);
        self.building = self.building.saturating_sub(u32::from(vm.status == VmStatus::Build));
    }

    /// The host with that claim again.
    pub fn put_back(&mut self, vm: &Vm) {
        let Some(claim) = vm.claim.as_ref().filter(|claim| claim.node == self.id) else { return };
        self.change_claimed(|claimed| claimed.add(&claim.resources));
        if !claim.parts.is_empty() {
            let node = self.node;
            self.change_parts(|room| room.take(&claim.parts, node.offer()));
        }
        self.digest.vms += 1;
        self.building += u32::from(vm.status == VmStatus::Build);
    }
}

/// Notes what is kept of the hosts, not yet in force; of two that keep the same, for the one ahead.
fn keep<'a>(hosts: &mut [Host<'a>], state: &'a State) {
    for vm in state.waiting.iter().filter_map(|id| state.vms.get(id)) {
        let Some((node, kept)) = Kept::of(state, vm) else { continue };
        let Ok(at) = hosts.binary_search_by_key(&node, Host::id) else { continue };
        let ahead = hosts[at].kept().is_none_or(|other| queue::rank(vm) < queue::rank(other.vm));
        if ahead {
            hosts[at].rare().kept = Some(kept);
        }
    }
}
