//! Batch selection: VMs one after another on the same picture of the hosts, each claim simulated before
//! the next is placed. Deterministic: the same state and the same VMs in the same order give the same
//! hosts.
//!
//! A batch mostly holds VMs of few shapes, and a placement changes one host only. So verdicts and raw
//! weights are kept per shape, and only changed hosts are asked again: placing a VM costs one pass of
//! integer arithmetic over the hosts.

use std::collections::{BTreeSet, VecDeque};

use holm_model::feasible;
use holm_model::vm::{HostReason, Vm};
use holm_model::{NodeId, State, VmId};

use crate::filter::{Host, Request};
use crate::policy::Policy;
use crate::weigher::{Range, weighted};

/// Shapes whose verdicts are kept; the longest unused gives way.
const SHAPES_MAX: usize = 8;

/// Hosts with the claims of the VMs placed so far.
pub struct Batch<'a> {
    policy: &'a Policy,
    hosts: Vec<Host<'a>>,
    /// Indices of the hosts to choose from: all but the withheld.
    offered: Vec<usize>,
    withheld: Vec<usize>,
    /// Indices of the hosts that took a claim, in order: what a shape must ask again.
    changes: Vec<usize>,
    /// Most recently used first.
    shapes: VecDeque<Shape<'a>>,
}

/// What filters and weighers said of every host, for VMs of one shape.
struct Shape<'a> {
    request: Request<'a>,
    /// How much of [`Batch::changes`] is taken in; none while no host was asked.
    seen: Option<usize>,
    passed: Vec<bool>,
    /// Raw weights, one row a host, one column a weigher; rows of refused hosts are stale.
    raw: Vec<i64>,
}

impl<'a> Batch<'a> {
    /// The hosts of `state`, as recorded.
    pub fn new(state: &'a State, policy: &'a Policy) -> Self {
        let hosts: Vec<Host<'a>> = state.nodes.values().map(Host::new).collect();
        let offered = (0..hosts.len()).collect();
        Self { policy, hosts, offered, withheld: Vec::new(), changes: Vec::new(), shapes: VecDeque::new() }
    }

    /// Chooses none of `nodes`, whatever the filters say.
    pub fn withhold(mut self, nodes: &BTreeSet<NodeId>) -> Self {
        (self.withheld, self.offered) =
            (0..self.hosts.len()).partition(|host| nodes.contains(&self.hosts[*host].id()));
        self
    }

    /// Whether `vm` fits on a withheld host.
    pub fn fits_withheld(&self, vm: &Vm) -> bool {
        let request = Request::new(vm);
        self.withheld.iter().any(|host| self.policy.passes(&request, &self.hosts[*host]))
    }

    /// Chooses a host for `vm` and claims it, or finds that none fits.
    pub fn place(&mut self, vm: &'a Vm) -> Option<NodeId> {
        self.bring_to_front(vm);
        let host = self.shapes[0].best(self.policy, &self.hosts, vm.id)?;
        self.claim(host, vm);
        Some(self.hosts[host].id())
    }

    /// Why each host refuses `vm` as things stand in the batch; empty for hosts that fit.
    pub fn refusals(&self, vm: &Vm) -> Vec<HostReason> {
        let request = Request::new(vm);
        let refused = |host: &Host<'_>| {
            let (by, message) = self.policy.check(&request, host).err()?;
            Some(HostReason { node: host.id(), by: by.to_owned(), message })
        };
        self.hosts.iter().filter_map(refused).collect()
    }

    fn claim(&mut self, host: usize, vm: &Vm) {
        self.hosts[host].claimed.to_mut().add(&feasible::claim_of(&vm.spec));
        self.changes.push(host);
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
                self.shapes.truncate(SHAPES_MAX - 1);
                self.shapes.push_front(Shape::new(self.policy, &self.hosts, vm));
            }
        }
        let shape = &mut self.shapes[0];
        let stale = match shape.seen {
            Some(seen) => &self.changes[seen..],
            None => &self.offered,
        };
        for host in stale {
            shape.ask(self.policy, &self.hosts, *host);
        }
        shape.seen = Some(self.changes.len());
    }
}

impl<'a> Shape<'a> {
    fn new(policy: &Policy, hosts: &[Host<'_>], vm: &'a Vm) -> Self {
        Self {
            request: Request::new(vm),
            seen: None,
            passed: vec![false; hosts.len()],
            raw: vec![0; hosts.len() * policy.weighers.len()],
        }
    }

    fn ask(&mut self, policy: &Policy, hosts: &[Host<'_>], host: usize) {
        self.passed[host] = policy.passes(&self.request, &hosts[host]);
        if self.passed[host] {
            let columns = policy.weighers.len();
            for (column, weigher) in policy.weighers.iter().enumerate() {
                self.raw[host * columns + column] = weigher.weigh(&self.request, &hosts[host]);
            }
        }
    }

    /// The host with the greatest score; among equals, the one the VM's id draws.
    fn best(&self, policy: &Policy, hosts: &[Host<'_>], vm: VmId) -> Option<usize> {
        let columns = policy.weighers.len();
        let row = |host: usize| &self.raw[host * columns..(host + 1) * columns];
        let mut ranges = vec![Range::EMPTY; columns];
        for host in self.passing() {
            ranges.iter_mut().zip(row(host)).for_each(|(range, raw)| range.include(*raw));
        }
        let scale: Vec<(i64, Range)> =
            policy.weighers.iter().map(|weigher| weigher.multiplier_thousandths()).zip(ranges).collect();
        let mut best: Option<(i64, u64, usize)> = None;
        for host in self.passing() {
            let score = scale
                .iter()
                .zip(row(host))
                .map(|((multiplier, range), raw)| weighted(*multiplier, range.normalise(*raw)))
                .fold(0i64, i64::saturating_add);
            if best.is_some_and(|(greatest, ..)| score < greatest) {
                continue;
            }
            let candidate = (score, draw(vm, hosts[host].id()), host);
            best = best.max(Some(candidate));
        }
        best.map(|(_, _, host)| host)
    }

    fn passing(&self) -> impl Iterator<Item = usize> + '_ {
        self.passed.iter().enumerate().filter(|(_, passed)| **passed).map(|(host, _)| host)
    }
}

/// A number drawn by a VM for a node, so that VMs share equal hosts instead of all taking the first:
/// SplitMix64's finaliser over both ids.
pub(crate) fn draw(vm: VmId, node: NodeId) -> u64 {
    let (high, low) = vm.0.as_u64_pair();
    [low, node.0].into_iter().fold(mix(high), |hash, part| mix(hash ^ part))
}

fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
