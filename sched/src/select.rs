//! Batch selection: VMs one after another on the same picture of the hosts, each claim simulated before
//! the next is placed: capacity, VM counts, builds, and where the members of groups are. Deterministic: the
//! same state and the same VMs in the same order give the same hosts.
//!
//! A batch mostly holds VMs of few shapes, and a placement changes one host only. So verdicts and raw
//! weights are kept per shape, and only changed hosts are asked again: placing a VM costs one pass of
//! integer arithmetic over the hosts. What a claim changes on *other* hosts makes a shape ask all again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use holm_model::command::BatchFit;
use holm_model::feasible::{no_batch_fits, no_node_fits};
use holm_model::group::GroupPolicy;
use holm_model::vm::{HostReason, Vm};
use holm_model::{NodeId, State, Timestamp, VmId};

use crate::advice::Gathered;
use crate::column::Column;
use crate::filter::Filter;
use crate::host::Host;
use crate::policy::Policy;
use crate::preempt::{self, Eviction};
use crate::request::{Placed, Request};
use crate::reserve;
use crate::shape::{Chosen, Shape};

/// Shapes whose verdicts are kept; the longest unused gives way.
const SHAPES_MAX: usize = 8;

/// Most hosts whose words are recorded; `explain` has those of all.
pub const REASONS_MAX: usize = 32;

/// Why a VM fits nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    /// Hosts by the filter that refuses them.
    pub counts: BTreeMap<String, u32>,
    /// By host, [`REASONS_MAX`] at most.
    pub refusals: Vec<HostReason>,
    /// Of a VM that waits with its batch: how many of it fit. The rest is said of the first too many.
    pub batch: Option<BatchFit>,
}

impl Reasons {
    /// In a sentence, as it is recorded.
    pub fn message(&self) -> String {
        match self.batch {
            Some(fit) => no_batch_fits(fit, &self.counts),
            None => no_node_fits(&self.counts),
        }
    }

    /// Another reason of a host that refuses, in the counts by the filter `counted` so far.
    pub fn replace(&mut self, reason: HostReason, counted: Option<&str>) {
        if let Some(count) = counted.and_then(|by| self.counts.get_mut(by)) {
            *count -= 1;
        }
        self.counts.retain(|_, count| *count > 0);
        *self.counts.entry(reason.by.clone()).or_default() += 1;
        match self.refusals.binary_search_by_key(&reason.node, |refusal| refusal.node) {
            Ok(known) => self.refusals[known] = reason,
            Err(at) => {
                self.refusals.insert(at, reason);
                self.drop_one_too_many(at);
            }
        }
    }

    /// Of too many, drops another than that at `kept`, if possible one whose filter has more to say.
    fn drop_one_too_many(&mut self, kept: usize) {
        if self.refusals.len() <= REASONS_MAX {
            return;
        }
        let others = || (0..self.refusals.len()).rev().filter(|at| *at != kept);
        let is_told_again = |at: &usize| {
            let by = &self.refusals[*at].by;
            self.refusals.iter().filter(|refusal| refusal.by == *by).count() > 1
        };
        if let Some(dropped) = others().find(is_told_again).or_else(|| others().next()) {
            self.refusals.remove(dropped);
        }
    }
}

/// Hosts with the claims of the VMs placed so far.
pub struct Batch<'a> {
    state: &'a State,
    policy: &'a Policy,
    hosts: Vec<Host<'a>>,
    columns: Vec<Column<'a>>,
    /// Indices of the hosts to choose from: all but the withheld.
    offered: Vec<usize>,
    withheld: Vec<usize>,
    placed: Placed,
    /// Indices of the hosts that took a claim, in order: what a shape must ask again.
    changes: Vec<usize>,
    /// Most recently used first.
    shapes: VecDeque<Shape<'a>>,
}

impl<'a> Batch<'a> {
    /// The hosts of `state`, as recorded.
    pub fn new(state: &'a State, policy: &'a Policy) -> Self {
        let hosts = Host::all(state);
        Self {
            state,
            policy,
            columns: Column::all(policy, state, &hosts),
            offered: (0..hosts.len()).collect(),
            hosts,
            withheld: Vec::new(),
            placed: Placed::new(),
            changes: Vec::new(),
            shapes: VecDeque::new(),
        }
    }

    /// Chooses none of `nodes`, whatever the filters say.
    pub fn withhold(mut self, nodes: &BTreeSet<NodeId>) -> Self {
        if nodes.is_empty() {
            return self;
        }
        (self.withheld, self.offered) =
            (0..self.hosts.len()).partition(|host| nodes.contains(&self.hosts[*host].id()));
        self
    }

    /// Whether `vm` fits on a withheld host.
    pub fn fits_withheld(&self, vm: &'a Vm) -> bool {
        if self.withheld.is_empty() {
            return false;
        }
        let request = self.request(vm);
        self.withheld.iter().any(|host| self.policy.passes(&request, &self.hosts[*host]))
    }

    /// Chooses a host for `vm` and claims it, or finds that none fits.
    pub fn place(&mut self, vm: &'a Vm) -> Option<Chosen> {
        self.bring_to_front(vm);
        let (host, chosen) = self.shapes[0].best(&self.columns, &self.hosts, vm)?;
        self.claim(host, vm);
        Some(chosen)
    }

    /// Places the VMs of one turn, all or none.
    ///
    /// # Errors
    /// When they do not all fit; with the reasons where they are several, a single one's being known at the end only.
    pub fn place_turn(&mut self, turn: &[&'a Vm]) -> Result<Vec<Chosen>, Option<Reasons>> {
        match turn {
            [vm] => self.place(vm).map(|chosen| vec![chosen]).ok_or_else(|| {
                self.keep_host_of(vm);
                None
            }),
            all => self.place_all(all).map_err(Some),
        }
    }

    fn place_all(&mut self, all: &[&'a Vm]) -> Result<Vec<Chosen>, Reasons> {
        let (mut chosen, mut before) = (Vec::new(), Vec::new());
        for vm in all {
            self.bring_to_front(vm);
            let Some((at, choice)) = self.shapes[0].best(&self.columns, &self.hosts, vm) else {
                let count = |vms: usize| u32::try_from(vms).unwrap_or(u32::MAX);
                let batch = Some(BatchFit { fit: count(chosen.len()), of: count(all.len()) });
                let reasons = Reasons { batch, ..self.reasons(vm) };
                self.take_back(before, all);
                return Err(reasons);
            };
            before.push((at, self.hosts[at].clone()));
            self.claim(at, vm);
            chosen.push(choice);
        }
        Ok(chosen)
    }

    /// These VMs are on no host; theirs were so `before` they came, one after another.
    fn take_back(&mut self, before: Vec<(usize, Host<'a>)>, vms: &[&Vm]) {
        for (at, host) in before.into_iter().rev() {
            self.hosts[at] = host;
        }
        vms.iter().for_each(|vm| _ = self.placed.remove(&vm.id));
        // They have counted what is gone.
        self.shapes.clear();
    }

    /// Claims this host for `vm`, if it is offered and fits.
    pub fn place_on(&mut self, vm: &'a Vm, node: NodeId) -> bool {
        self.bring_to_front(vm);
        let offered = |at: &usize| self.offered.binary_search(at).is_ok();
        let at = self.hosts.binary_search_by_key(&node, Host::id).ok().filter(offered);
        let fits = |at: &usize| self.policy.passes(&self.shapes[0].request, &self.hosts[*at]);
        let Some(at) = at.filter(fits) else { return false };
        self.claim(at, vm);
        true
    }

    /// Claims this host for one `vm` like this after the other until no more fits, at most `most`; says how many.
    pub fn fill(&mut self, vm: &'a Vm, node: NodeId, most: usize) -> usize {
        (0..most).take_while(|_| self.place_on(vm, node)).count()
    }

    /// From here on `vms` are on no host, as far as others look for them: they leave theirs, and what they claim there
    /// is free only when they have.
    pub fn leave(&mut self, vms: impl IntoIterator<Item = VmId>) {
        self.placed.extend(vms.into_iter().map(|vm| (vm, None)));
        self.shapes.clear();
    }

    /// Why hosts refuse `vm` as things stand in the batch: how many each filter does, and the words of some hosts, those
    /// of every filter among them. What a full record would hold is as long as the cluster is large.
    pub fn reasons(&self, vm: &'a Vm) -> Reasons {
        self.reasons_of(vm, REASONS_MAX)
    }

    /// [`Batch::reasons`] in the words of `worded` hosts at most; the counts are of all.
    pub(crate) fn reasons_of(&self, vm: &'a Vm, worded: usize) -> Reasons {
        let request = self.request(vm);
        let filters = self.policy.applying(&request);
        let mut refused = vec![0u32; filters.len()];
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for host in &self.hosts {
            let refuses = |filter: &&dyn Filter| !filter.passes(&request, host);
            let Some(by) = filters.iter().position(refuses) else { continue };
            refused[by] += 1;
            if refused[by] == 1 {
                first.push((host, filters[by]));
            } else if others.len() < worded {
                others.push((host, filters[by]));
            }
        }
        let mut worded: Vec<_> = first.into_iter().chain(others).take(worded).collect();
        worded.sort_by_key(|(host, _)| host.id());
        let words = worded.into_iter().filter_map(|(host, filter)| {
            let message = filter.check(&request, host).err()?;
            Some(HostReason { node: host.id(), by: filter.name().to_owned(), message })
        });
        let refusals = words.collect();
        let mut counts = BTreeMap::new();
        for (filter, refused) in filters.iter().zip(refused).filter(|(_, refused)| *refused > 0) {
            *counts.entry(filter.name().to_owned()).or_default() += refused;
        }
        Reasons { counts, refusals, batch: None }
    }

    /// The filter by which `node` is among the hosts that refuse `vm`.
    pub fn refusing(&self, vm: &'a Vm, node: NodeId) -> Option<&'static str> {
        let at = self.hosts.binary_search_by_key(&node, Host::id).ok()?;
        Some(self.policy.refusing(&self.request(vm), &self.hosts[at])?.name())
    }

    /// Why each host refuses `vm` as things stand in the batch; empty for hosts that fit.
    pub fn refusals(&self, vm: &'a Vm) -> Vec<HostReason> {
        let request = self.request(vm);
        let refused = |host: &Host<'_>| {
            let (by, message) = self.policy.check(&request, host).err()?;
            Some(HostReason { node: host.id(), by: by.to_owned(), message })
        };
        self.hosts.iter().filter_map(refused).collect()
    }

    /// Gathers what to do about the hosts that refuse `vm`, but not about those of `without`.
    pub fn advise(&self, vm: &'a Vm, without: &BTreeSet<NodeId>, gathered: &mut Gathered) {
        let request = self.request(vm);
        let hosts = self.hosts.iter().filter(|host| !without.contains(&host.id()));
        hosts.for_each(|host| gathered.add(self.policy, &request, host));
    }

    /// From here on, what is kept for `vm` is kept: those that follow are behind it in the queue.
    pub fn keep_host_of(&mut self, vm: &Vm) {
        let Some(reserved) = &vm.reserved else { return };
        let Ok(at) = self.hosts.binary_search_by_key(&reserved.node, Host::id) else { return };
        if self.hosts[at].kept().is_some_and(|kept| kept.vm.id == vm.id) {
            self.hosts[at].keep();
            // What is among the changes is asked again, and so chosen.
            if self.offered.binary_search(&at).is_ok() {
                self.changes.push(at);
            }
        }
    }

    /// Whether any host is kept for somebody.
    pub fn keeps_hosts(&self) -> bool {
        self.hosts.iter().any(|host| host.kept().is_some())
    }

    /// The hosts to keep for those of `vms`, in the order of the queue, that fit nowhere at `now`.
    pub fn reservations(&self, vms: &[&'a Vm], now: Timestamp) -> BTreeMap<VmId, NodeId> {
        let withheld = self.withheld.iter().map(|at| self.hosts[*at].id()).collect();
        reserve::choose(self.policy, &self.hosts, &withheld, vms, |vm| self.request(vm), now)
    }

    /// Whom to evict for the first of `vms`, in the order of the queue, that fits nowhere and would then.
    pub fn eviction(&self, vms: &[&'a Vm]) -> Option<(VmId, Eviction)> {
        let of = |places: &[usize]| -> Vec<&Host<'a>> { places.iter().map(|at| &self.hosts[*at]).collect() };
        let (offered, withheld) = (of(&self.offered), of(&self.withheld));
        preempt::choose(self.state, self.policy, vms, |vm| self.request(vm), &offered, &withheld)
    }

    fn request(&self, vm: &'a Vm) -> Request<'a> {
        Request::new(self.state, &self.placed, vm)
    }

    /// Claims `host` for `vm`, whose shape is the first.
    fn claim(&mut self, host: usize, vm: &Vm) {
        let node = self.hosts[host].id();
        self.hosts[host].claim(&self.shapes[0].request.claim);
        self.hosts[host].take_parts(vm);
        self.placed.insert(vm.id, Some(node));
        self.changes.push(host);
        if let Some(id) = vm.spec.scheduling.group {
            for shape in &mut self.shapes {
                let Some(group) = shape.request.group.as_mut().filter(|group| group.record.id == id) else {
                    continue;
                };
                let first = group.members(node).placed == 0;
                group.add(node);
                if first && group.record.policy == GroupPolicy::Affinity {
                    // The first member takes all other hosts from the rest of the group.
                    shape.seen = None;
                }
            }
        }
        self.shapes.retain(|shape| !shape.request.names(vm.id));
    }

    /// Makes the verdicts for VMs like `vm` the first of the kept ones, up to date.
    fn bring_to_front(&mut self, vm: &'a Vm) {
        match self.shapes.iter().position(|shape| shape.request.same_shape(vm)) {
            Some(0) => {}
            Some(at) => {
                if let Some(shape) = self.shapes.remove(at) {
                    self.shapes.push_front(shape);
                }
            }
            None => {
                let request = self.request(vm);
                self.shapes.truncate(SHAPES_MAX - 1);
                let shape = Shape::new(self.policy, &self.columns, request);
                self.shapes.push_front(shape);
            }
        }
        let shape = &mut self.shapes[0];
        // What is kept of a host is kept from those behind its holder only.
        shape.request.vm = vm;
        match shape.seen {
            None => shape.ask_all(&self.columns, &self.hosts, &self.offered),
            Some(seen) => {
                let stale = self.changes[seen..].iter();
                stale.for_each(|host| shape.ask(&self.columns, &self.hosts, *host));
            }
        }
        shape.seen = Some(self.changes.len());
    }
}
