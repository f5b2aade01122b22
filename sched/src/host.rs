//! One host as a decision sees it: its record, what else the state says about it, and the claims of the
//! batch so far on top.

use std::borrow::Cow;

use holm_model::aggregate::{Aggregate, DEFAULT_ZONE};
use holm_model::feasible;
use holm_model::node::Node;
use holm_model::room::{Free, PartsRoom};
use holm_model::vm::{Vm, VmStatus};
use holm_model::{NodeId, ResourceClass, Resources, State};

use crate::queue;
use crate::reserve::Kept;
use crate::weighers::hypervisor_version;

/// A host and its load.
#[derive(Clone, Debug)]
pub struct Host<'a> {
    pub node: &'a Node,
    id: NodeId,
    /// `holm_model::feasible::has_status`. This and the next are in the record too, but those of many nodes do not fit
    /// into the processor's caches: each is read once.
    pub has_status: bool,
    /// How many conditions it has.
    pub conditions: u32,
    /// Whether it has any taint.
    pub is_tainted: bool,
    /// Sum of the claims.
    pub claimed: Cow<'a, Resources>,
    /// What they leave.
    pub free: Free,
    /// Its availability zone.
    pub zone: &'a str,
    /// The aggregates it is in, by id. Most hosts are in one at most: that one costs no allocation.
    first_aggregate: Option<&'a Aggregate>,
    more_aggregates: Vec<&'a Aggregate>,
    /// VMs with a claim here.
    pub vms: u32,
    /// Those of them that are being built: Nova's I/O operations.
    pub building: u32,
    /// Parts of it that VMs may hold for themselves; none where it never offered any.
    parts: Option<Cow<'a, PartsRoom>>,
    /// Number of its hypervisor's version.
    pub version: i64,
    /// For a VM that has long waited.
    pub kept: Option<Box<Kept<'a>>>,
}

/// A claim in the classes of [`Free`].
#[derive(Clone, Debug)]
pub struct Wanted {
    vcpus: i64,
    memory_mib: i64,
    disk_gib: i64,
    /// The other classes.
    custom: Resources,
}

impl Wanted {
    pub fn of(claim: &Resources) -> Self {
        Self {
            vcpus: clamp(claim.get(&ResourceClass::Vcpu)),
            memory_mib: clamp(claim.get(&ResourceClass::MemoryMb)),
            disk_gib: clamp(claim.get(&ResourceClass::DiskGb)),
            custom: claim
                .0
                .iter()
                .filter(|(class, _)| is_custom(class))
                .map(|(c, n)| (c.clone(), *n))
                .collect(),
        }
    }

    /// Whether `host` has so much free; none where numbers alone cannot tell. The rule itself is
    /// `holm_model::feasible::has_capacity`, and this its answer.
    pub fn fits(&self, host: &Host<'_>) -> Option<bool> {
        let free = &host.free;
        let within = |wanted: i64, free: i64| wanted == 0 || wanted <= free;
        (!free.in_units).then(|| {
            within(self.vcpus, free.vcpus)
                && within(self.memory_mib, free.memory_mib)
                && within(self.disk_gib, free.disk_gib)
                && (self.custom.0.is_empty()
                    || feasible::has_capacity(host.node, &host.claimed, &self.custom))
        })
    }
}

fn is_custom(class: &ResourceClass) -> bool {
    matches!(class, ResourceClass::Custom(_))
}

fn clamp(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

impl<'a> Host<'a> {
    /// Every host of `state`, by id.
    pub fn all(state: &'a State) -> Vec<Self> {
        let mut hosts: Vec<Self> = state.nodes.values().map(Self::bare).collect();
        // Both sides ascend, so one walk finds every pair.
        let mut at = 0;
        for (node, vms) in &state.vms_by_node {
            if let Some(host) = advance(&mut hosts, &mut at, *node) {
                host.vms = u32::try_from(vms.len()).unwrap_or(u32::MAX);
            }
        }
        at = 0;
        for (node, _) in &state.building {
            if let Some(host) = advance(&mut hosts, &mut at, *node) {
                host.building += 1;
            }
        }
        for aggregate in state.aggregates.values() {
            at = 0;
            let zone = aggregate.zone();
            for node in &aggregate.nodes {
                if let Some(host) = advance(&mut hosts, &mut at, *node) {
                    host.join(aggregate, zone);
                }
            }
        }
        let mut last = ("", 0);
        for host in &mut hosts {
            let Some(report) = &host.node.report else { continue };
            // Most hosts run the same.
            let version = report.hypervisor.version.as_str();
            if version != last.0 {
                last = (version, hypervisor_version::number(version));
            }
            host.version = last.1;
        }
        keep(&mut hosts, state);
        hosts
    }

    fn bare(node: &'a Node) -> Self {
        let conditions = if node.is_well() { 0 } else { node.conditions().count() };
        Self {
            node,
            id: node.id,
            has_status: feasible::has_status(node),
            conditions: u32::try_from(conditions).unwrap_or(u32::MAX),
            is_tainted: !node.taints.is_empty(),
            claimed: Cow::Borrowed(&node.allocated),
            free: node.room.free,
            zone: DEFAULT_ZONE,
            first_aggregate: None,
            more_aggregates: Vec::new(),
            vms: 0,
            building: 0,
            parts: (!node.offer().is_empty()).then_some(Cow::Borrowed(&node.room.parts)),
            version: 0,
            kept: None,
        }
    }

    /// Enters an aggregate, whose zone counts if none before gave one.
    fn join(&mut self, aggregate: &'a Aggregate, zone: Option<&'a str>) {
        if let Some(zone) = zone.filter(|_| self.aggregates().all(|other| other.zone().is_none())) {
            self.zone = zone;
        }
        match self.first_aggregate {
            None => self.first_aggregate = Some(aggregate),
            Some(_) => self.more_aggregates.push(aggregate),
        }
    }

    fn aggregates(&self) -> impl Iterator<Item = &'a Aggregate> + Clone {
        self.first_aggregate.into_iter().chain(self.more_aggregates.iter().copied())
    }

    pub fn id(&self) -> NodeId {
        self.id
    }

    /// A VM is placed here.
    pub fn claim(&mut self, resources: &Resources) {
        self.claimed.to_mut().add(resources);
        self.recount();
        self.vms += 1;
        self.building += 1;
        if let Some(kept) = &mut self.kept {
            kept.add(resources);
        }
    }

    /// The VM that was placed here takes the parts it asks for.
    pub fn take_parts(&mut self, vm: &Vm) {
        let Some(room) = &mut self.parts else { return };
        if let Ok(parts) = feasible::parts_for(self.node, room, vm)
            && !parts.is_empty()
        {
            room.to_mut().take(&parts, self.node.offer());
            self.kept.iter_mut().for_each(|kept| kept.take(&parts, self.node.offer()));
        }
    }

    /// Parts of it that VMs may hold for themselves.
    pub fn parts(&self) -> Cow<'_, PartsRoom> {
        self.parts.as_deref().map_or_else(Cow::default, Cow::Borrowed)
    }

    /// None holds any.
    pub(crate) fn free_parts(&mut self) {
        let room = PartsRoom::empty(self.node.offer());
        self.parts = self.parts.take().map(|_| Cow::Owned(room));
    }

    /// PCI devices that no VM holds.
    pub fn free_devices(&self) -> u64 {
        self.parts.as_ref().map_or(0, |room| room.free_devices())
    }

    /// What is free has to be worked out anew.
    pub(crate) fn recount(&mut self) {
        self.free = Free::of(&self.node.inventory, &self.claimed);
    }

    /// From now on, what is kept here is kept from those behind its holder.
    pub fn keep(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.in_force = true;
        }
    }

    /// The host without the claim that `vm` has on it, if it has one.
    pub fn without(&mut self, vm: &Vm) {
        let Some(claim) = vm.claim.as_ref().filter(|claim| claim.node == self.node.id) else { return };
        self.claimed.to_mut().sub(&claim.resources);
        // Owning and counting the parts of a host is dear, and few VMs hold any.
        if let Some(room) = self.parts.as_mut().filter(|_| !claim.parts.is_empty()) {
            room.to_mut().give_back(&claim.parts, self.node.offer());
        }
        self.recount();
        self.vms = self.vms.saturating_sub(1);
        self.building = self.building.saturating_sub(u32::from(vm.status == VmStatus::Build));
    }

    /// The host with that claim again.
    pub fn put_back(&mut self, vm: &Vm) {
        let Some(claim) = vm.claim.as_ref().filter(|claim| claim.node == self.node.id) else { return };
        self.claimed.to_mut().add(&claim.resources);
        if let Some(room) = self.parts.as_mut().filter(|_| !claim.parts.is_empty()) {
            room.to_mut().take(&claim.parts, self.node.offer());
        }
        self.recount();
        self.vms += 1;
        self.building += u32::from(vm.status == VmStatus::Build);
    }

    /// Values of a metadata key over its aggregates, each split at commas as Nova does.
    pub fn metadata(&self, key: &str) -> impl Iterator<Item = &'a str> + Clone {
        self.raw_metadata(key).flat_map(|value| value.split(',')).map(str::trim)
    }

    /// The same of all keys that begin so.
    pub fn metadata_of_keys(&self, beginning: &str) -> impl Iterator<Item = &'a str> + Clone {
        let begins = move |(key, _): &(&String, &String)| key.starts_with(beginning);
        let values = self.aggregates().flat_map(move |aggregate| aggregate.metadata.iter().filter(begins));
        values.flat_map(|(_, value)| value.split(',')).map(str::trim)
    }

    /// The least number its aggregates give by this key; none where one of them is no number, as in Nova.
    pub fn least(&self, key: &str) -> Option<u32> {
        let numbers = self.raw_metadata(key).map(|value| value.trim().parse().ok());
        numbers.reduce(|a: Option<u32>, b| a.zip(b).map(|(a, b)| a.min(b))).flatten()
    }

    /// Values of a metadata key over its aggregates as they stand.
    pub fn raw_metadata(&self, key: &str) -> impl Iterator<Item = &'a str> + Clone {
        self.aggregates().filter_map(move |aggregate| aggregate.metadata.get(key)).map(String::as_str)
    }
}

/// Notes what is kept of the hosts, not yet in force; of two that keep the same, for the one ahead.
fn keep<'a>(hosts: &mut [Host<'a>], state: &'a State) {
    for vm in state.waiting.iter().filter_map(|id| state.vms.get(id)) {
        let Some((node, kept)) = Kept::of(state, vm) else { continue };
        let Ok(at) = hosts.binary_search_by_key(&node, Host::id) else { continue };
        let ahead = hosts[at].kept.as_ref().is_none_or(|other| queue::rank(vm) < queue::rank(other.vm));
        if ahead {
            hosts[at].kept = Some(Box::new(kept));
        }
    }
}

fn advance<'h, 'a>(hosts: &'h mut [Host<'a>], at: &mut usize, node: NodeId) -> Option<&'h mut Host<'a>> {
    while hosts.get(*at)?.id < node {
        *at += 1;
    }
    hosts.get_mut(*at).filter(|host| host.id == node)
}
