//! Hosts kept for VMs that have long waited, so that nobody starves: without that, small VMs would take
//! every bit of room for ever that a big one needs at once.
//!
//! The rule: once a VM has waited for the policy's `reserve_after_s` and still fits nowhere, one host that
//! could take it, were it empty, is kept for it. VMs behind it in the queue may claim there only what it
//! would leave over: the claims made since, theirs and its own together stay within capacity, and its CPUs and
//! devices can still be found. So whatever was there before goes in time, and then it fits. VMs ahead of it take what
//! they fit into, as always.
//!
//! Where VMs were evicted for it, nobody behind it claims anything there before all that leave have left: the first
//! of them would go back to the room it made, and be evicted again.
//!
//! A reservation is part of the VM's record, so decisions replay; apply does not ask it again.

use std::collections::{BTreeMap, BTreeSet};

use holm_model::feasible::{self, Refusal};
use holm_model::parts::{self, Offer, Parts};
use holm_model::room::PartsRoom;
use holm_model::vm::{OnNoHost, Vm};
use holm_model::{NodeId, ResourceClass, Resources, State, Timestamp, VmId};

use crate::host::Host;
use crate::policy::Policy;
use crate::queue;
use crate::request::{Request, same_shape};
use crate::shape::draw;

/// What is kept of one host.
#[derive(Clone, Debug)]
pub struct Kept<'a> {
    /// For whom.
    pub vm: &'a Vm,
    /// What it needs, and what was claimed here since the host is kept.
    spoken_for: Resources,
    /// Parts of the host that are held since then; none if it asks for none.
    parts: Option<PartsRoom>,
    /// Whether VMs were evicted for it, and some still leave.
    is_being_emptied: bool,
    /// Whether VMs behind the holder are held off. In a run over the queue only once its turn has come:
    /// before that, answers are shared by VMs that may be ahead of it or behind.
    pub in_force: bool,
}

impl<'a> Kept<'a> {
    /// What the record of `vm` keeps, and of which node.
    pub fn of(state: &'a State, vm: &'a Vm) -> Option<(NodeId, Self)> {
        let reserved = vm.reserved.as_ref()?;
        let node = state.nodes.get(&reserved.node)?;
        let mut spoken_for = feasible::claim_of(&vm.spec);
        let mut parts = parts::asks(&vm.spec).then(|| PartsRoom::empty(node.offer()));
        let claims = state.vms_on(reserved.node).filter_map(|other| other.claim.as_ref());
        for claim in claims.filter(|claim| claim.epoch.0 > reserved.since) {
            spoken_for.add(&claim.resources);
            parts.iter_mut().for_each(|parts| parts.take(&claim.parts, node.offer()));
        }
        let leaves = |other: &Vm| other.recovery.vacate.is_some();
        let is_being_emptied = !reserved.evicted.is_empty() && state.vms_on(reserved.node).any(leaves);
        Some((reserved.node, Self { vm, spoken_for, parts, is_being_emptied, in_force: false }))
    }

    /// Somebody claimed more.
    pub fn add(&mut self, claim: &Resources) {
        self.spoken_for.add(claim);
    }

    /// Somebody took more parts.
    pub fn take(&mut self, parts: &Parts, offer: &Offer) {
        self.parts.iter_mut().for_each(|room| room.take(parts, offer));
    }

    /// Whether `request` is left enough on `host`.
    pub fn leaves(&self, host: &Host<'_>, request: &Request<'_>) -> bool {
        !self.in_force
            || queue::rank(request.vm) <= queue::rank(self.vm)
            || !self.is_being_emptied
                && feasible::has_capacity(host.node, &self.spoken_for, &request.claim)
                && self.parts_left(host, request.vm).is_ok()
    }

    /// Whether the holder still finds its parts, were those gone that were there before, once `vm` has taken its own:
    /// which those are, is settled by what is free now.
    fn parts_left(&self, host: &Host<'_>, vm: &Vm) -> Result<(), Refusal> {
        let Some(room) = self.parts.as_ref().filter(|_| parts::asks(&vm.spec)) else { return Ok(()) };
        // Where it finds none, another filter refuses it.
        let Ok(taken) = feasible::parts_for(host.node, host.parts(), vm) else { return Ok(()) };
        let mut room = room.clone();
        room.take(&taken, host.node.offer());
        let left = feasible::parts_for(host.node, &room, self.vm);
        left.map(|_| ()).map_err(|(_, refusal)| refusal)
    }

    /// [`Kept::leaves`], with words.
    ///
    /// # Errors
    /// For whom the host is kept, and what is left over.
    pub fn check(&self, host: &Host<'_>, request: &Request<'_>) -> Result<(), Refusal> {
        if self.leaves(host, request) {
            return Ok(());
        }
        if self.is_being_emptied {
            return Err(format!("kept for `{}`: VMs that make room for it have not left yet", self.vm.name));
        }
        if let Err(short) = self.parts_left(host, request.vm) {
            return Err(format!(
                "kept for `{}`: it has long waited, and would be short of {short}",
                self.vm.name
            ));
        }
        let short = feasible::capacity(host.node, &self.spoken_for, &request.claim).err().unwrap_or_default();
        Err(format!("kept for `{}`: it has long waited, and beside it {short}", self.vm.name))
    }
}

/// Greatest number of hosts kept at once: a quarter of them, and one at least.
pub fn reservations_max(hosts: usize) -> usize {
    (hosts / 4).max(1)
}

/// The hosts to keep for those of `waiting`, in the order of the queue, that fit nowhere at `now`; none of
/// `withheld`.
pub fn choose<'a>(
    policy: &Policy,
    hosts: &[Host<'a>],
    withheld: &BTreeSet<NodeId>,
    waiting: &[&'a Vm],
    request: impl Fn(&'a Vm) -> Request<'a>,
    now: Timestamp,
) -> BTreeMap<VmId, NodeId> {
    let mut kept = BTreeMap::new();
    let long = |vm: &Vm| vm.waiting_since.is_some_and(|since| now.since_ms(since) >= policy.reserve_after_ms);
    let waits =
        |vm: &Vm| vm.batch.is_none() && (vm.spec.on_no_host == OnNoHost::Queue || vm.recovery.failing_over);
    let emptied_for = |vm: &Vm| vm.reserved.as_ref().is_some_and(|reserved| !reserved.evicted.is_empty());
    let asks = |vm: &Vm| policy.reserve_after_ms > 0 && (vm.reserved.is_some() || long(vm) && waits(vm));
    let waiting = waiting.iter().copied().filter(|vm| asks(vm) || emptied_for(vm));
    // Those that have one go first: it does not wander while it could still do.
    let (holders, others): (Vec<&Vm>, Vec<&Vm>) = waiting.partition(|vm| vm.reserved.is_some());
    if holders.is_empty() && others.is_empty() {
        return kept;
    }
    let empty: Vec<Host<'_>> = hosts.iter().map(Host::emptied).collect();
    let mut without = Vec::new();
    for vm in holders {
        let mut same = empty.iter().filter(|host| vm.reserved.as_ref().is_some_and(|r| r.node == host.id()));
        match same.find(|host| policy.passes(&request(vm), host)) {
            Some(host) => _ = kept.insert(vm.id, host.id()),
            None => without.push(vm),
        }
    }
    let mut hopeless: Vec<&Vm> = Vec::new();
    for vm in without.into_iter().chain(others) {
        if kept.len() >= reservations_max(hosts.len()) {
            break;
        }
        if hopeless.iter().any(|other| same_shape(other, vm)) {
            continue;
        }
        let request = request(vm);
        let taken: BTreeSet<NodeId> = kept.values().copied().chain(withheld.iter().copied()).collect();
        let candidates = hosts.iter().zip(&empty).filter(|(_, empty)| !taken.contains(&empty.id()));
        let could_do = candidates.filter(|(_, empty)| policy.passes(&request, empty));
        let rank = |host: &Host<'_>| (lacks(host, &request.claim), !draw(vm.id, host.id()));
        match could_do.map(|(host, _)| (rank(host), host.id())).min() {
            Some((_, node)) => _ = kept.insert(vm.id, node),
            None => hopeless.push(vm),
        }
    }
    kept
}

/// How much would have to go before `wanted` fits: of the scarcest class, in thousandths of its capacity.
fn lacks(host: &Host<'_>, wanted: &Resources) -> u128 {
    let lack = |(class, amount): (&ResourceClass, &u64)| {
        let capacity = host.node.inventory.get(class).map_or(0, |inventory| inventory.capacity());
        let taken = u128::from(host.claimed().get(class)) + u128::from(*amount);
        taken.saturating_sub(u128::from(capacity)) * 1000 / u128::from(capacity.max(1))
    };
    wanted.0.iter().map(lack).max().unwrap_or(0)
}
