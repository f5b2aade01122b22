//! One host as a decision sees it: its record, what else the state says about it, and the claims of the
//! batch so far on top.

use std::borrow::Cow;

use holm_model::aggregate::{Aggregate, DEFAULT_ZONE};
use holm_model::feasible;
use holm_model::node::Node;
use holm_model::parts::Parts;
use holm_model::vm::{Vm, VmStatus};
use holm_model::{Inventory, NodeId, ResourceClass, Resources, State};

use crate::queue;
use crate::reserve::Kept;
use crate::weighers::hypervisor_version;

/// A host and its load.
#[derive(Clone, Debug)]
pub struct Host<'a> {
    pub node: &'a Node,
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
    /// Parts of it that VMs hold for themselves; empty where it offers none.
    taken: Option<Box<Parts>>,
    /// Number of its hypervisor's version.
    pub version: i64,
    /// For a VM that has long waited.
    pub kept: Option<Box<Kept<'a>>>,
}

/// Capacity less claims of the classes every VM asks for, worked out once: these are read for every VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    pub vcpus: i64,
    pub memory_mib: i64,
    pub disk_gib: i64,
    /// Whether any amount of these may be claimed: no least or greatest amount, no steps.
    any_amount: bool,
}

impl Free {
    /// One walk over each map: they are small, and look-ups in them are most of what a decision reads.
    fn of(node: &Node, claimed: &Resources) -> Self {
        let mut free = Self { vcpus: 0, memory_mib: 0, disk_gib: 0, any_amount: true };
        let mut claims = claimed.0.iter().peekable();
        // Both are in the order of their classes.
        for (class, inventory) in &node.inventory {
            let Some(amount) = free.amount(class) else { break };
            while claims.next_if(|(other, _)| *other < class).is_some() {}
            let claimed = claims.next_if(|(other, _)| *other == class).map_or(0, |(_, amount)| *amount);
            *amount = clamp(inventory.capacity()).saturating_sub(clamp(claimed));
            let Inventory { min_unit, max_unit, step_size, .. } = inventory;
            free.any_amount &= (*min_unit, *max_unit, *step_size) == (1, u64::MAX, 1);
        }
        free
    }

    /// None for custom classes, which come last.
    fn amount(&mut self, class: &ResourceClass) -> Option<&mut i64> {
        match class {
            ResourceClass::Vcpu => Some(&mut self.vcpus),
            ResourceClass::MemoryMb => Some(&mut self.memory_mib),
            ResourceClass::DiskGb => Some(&mut self.disk_gib),
            ResourceClass::Custom(_) => None,
        }
    }

    /// Whether so much is free, where three numbers can tell; the rule itself is
    /// `holm_model::feasible::has_capacity`, and this its answer.
    pub fn has(&self, wanted: &Wanted) -> Option<bool> {
        let within = |wanted: i64, free: i64| wanted == 0 || wanted <= free;
        (self.any_amount && wanted.nothing_else).then(|| {
            within(wanted.vcpus, self.vcpus)
                && within(wanted.memory_mib, self.memory_mib)
                && within(wanted.disk_gib, self.disk_gib)
        })
    }
}

/// A claim in the classes of [`Free`].
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    vcpus: i64,
    memory_mib: i64,
    disk_gib: i64,
    /// Whether it has no other class.
    nothing_else: bool,
}

impl Wanted {
    pub fn of(claim: &Resources) -> Self {
        Self {
            vcpus: clamp(claim.get(&ResourceClass::Vcpu)),
            memory_mib: clamp(claim.get(&ResourceClass::MemoryMb)),
            disk_gib: clamp(claim.get(&ResourceClass::DiskGb)),
            nothing_else: !claim.0.keys().any(|class| matches!(class, ResourceClass::Custom(_))),
        }
    }
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
            for node in &aggregate.nodes {
                if let Some(host) = advance(&mut hosts, &mut at, *node) {
                    host.join(aggregate);
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
            if !report.offer.is_empty() {
                host.taken = Some(Box::new(feasible::parts_taken(state, host.node.id)));
            }
        }
        keep(&mut hosts, state);
        hosts
    }

    fn bare(node: &'a Node) -> Self {
        Self {
            node,
            claimed: Cow::Borrowed(&node.allocated),
            free: Free::of(node, &node.allocated),
            zone: DEFAULT_ZONE,
            first_aggregate: None,
            more_aggregates: Vec::new(),
            vms: 0,
            building: 0,
            taken: None,
            version: 0,
            kept: None,
        }
    }

    fn join(&mut self, aggregate: &'a Aggregate) {
        let has_zone = self.aggregates().any(|aggregate| aggregate.zone().is_some());
        if let Some(zone) = aggregate.zone().filter(|_| !has_zone) {
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
        self.node.id
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
        let Some(taken) = &mut self.taken else { return };
        if let Ok(parts) = feasible::parts_for(self.node, taken, vm) {
            taken.add(&parts);
        }
    }

    /// Parts of it that VMs hold for themselves.
    pub fn taken(&self) -> Cow<'_, Parts> {
        self.taken.as_deref().map_or_else(Cow::default, Cow::Borrowed)
    }

    /// None holds any.
    pub(crate) fn free_parts(&mut self) {
        self.taken = self.taken.take().map(|_| Box::default());
    }

    /// PCI devices that no VM holds.
    pub fn free_devices(&self) -> usize {
        let (Some(taken), Some(report)) = (&self.taken, &self.node.report) else { return 0 };
        report.offer.devices.keys().filter(|device| !taken.devices.contains(*device)).count()
    }

    /// What is free has to be worked out anew.
    pub(crate) fn recount(&mut self) {
        self.free = Free::of(self.node, &self.claimed);
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
        self.taken.iter_mut().for_each(|taken| taken.sub(&claim.parts));
        self.recount();
        self.vms = self.vms.saturating_sub(1);
        self.building = self.building.saturating_sub(u32::from(vm.status == VmStatus::Build));
    }

    /// The host with that claim again.
    pub fn put_back(&mut self, vm: &Vm) {
        let Some(claim) = vm.claim.as_ref().filter(|claim| claim.node == self.node.id) else { return };
        self.claimed.to_mut().add(&claim.resources);
        self.taken.iter_mut().for_each(|taken| taken.add(&claim.parts));
        self.recount();
        self.vms += 1;
        self.building += u32::from(vm.status == VmStatus::Build);
    }

    /// Values of a metadata key over its aggregates, each split at commas as Nova does.
    pub fn metadata(&self, key: &str) -> impl Iterator<Item = &'a str> + Clone {
        self.raw_metadata(key).flat_map(|value| value.split(',')).map(str::trim)
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
    while hosts.get(*at)?.node.id < node {
        *at += 1;
    }
    hosts.get_mut(*at).filter(|host| host.node.id == node)
}
