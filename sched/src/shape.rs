//! What filters and weighers said of every host for VMs of one shape, and the choice that follows.

use holm_model::vm::{RUNNERS_UP_MAX, Score, Vm};
use holm_model::{NodeId, VmId};

use crate::column::{Column, Weights};
use crate::filter::Filter;
use crate::host::Host;
use crate::policy::Policy;
use crate::request::Request;

/// So many hosts stay in the processor's nearest cache while filter after filter and weigher after weigher asks them.
const BLOCK: usize = 128;

/// A host for a VM, and how it came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub node: NodeId,
    /// Hosts that passed the filters.
    pub candidates: u32,
    /// The chosen host first, then the runners-up.
    pub scores: Vec<Score>,
}

/// Verdicts and raw weights for VMs of one shape.
pub(crate) struct Shape<'a> {
    pub request: Request<'a>,
    /// How much of the batch's changes is taken in; none while no host was asked.
    pub seen: Option<usize>,
    filters: Vec<&'a dyn Filter>,
    /// Indices of the columns that tell hosts apart.
    columns: Vec<usize>,
    /// Indices of the hosts that passed, ascending.
    passing: Vec<usize>,
    /// Column by column, in the order of `passing`.
    weights: Vec<Weights>,
    /// Memory for scores, in the same order.
    scores: Vec<i64>,
}

/// A host that passed: whether the VM was moved there, its score, its draw, its index. The greatest is best.
type Candidate = (bool, i64, u64, usize);

impl<'a> Shape<'a> {
    pub fn new(policy: &'a Policy, columns: &[Column<'_>], request: Request<'a>) -> Self {
        let filters = policy.applying(&request);
        let applies = |column: &usize| columns[*column].weigher.applies(&request);
        let columns = (0..columns.len()).filter(applies).collect();
        let (passing, weights, scores) = (Vec::new(), Vec::new(), Vec::new());
        Self { request, seen: None, filters, columns, passing, weights, scores }
    }

    /// Asks filters and weighers about the `offered` hosts.
    pub fn ask_all(&mut self, columns: &[Column<'_>], hosts: &[Host<'_>], offered: &[usize]) {
        self.passing.clear();
        self.passing.reserve(offered.len());
        self.weights = self.columns.iter().map(|_| Weights::EMPTY).collect();
        let (mut left, mut weights) = (Vec::with_capacity(BLOCK), Vec::with_capacity(BLOCK));
        for block in offered.chunks(BLOCK) {
            left.clear();
            left.extend(block);
            self.filters.iter().for_each(|filter| filter.sieve(&self.request, hosts, &mut left));
            for (column, all) in self.columns.iter().zip(&mut self.weights) {
                weights.clear();
                columns[*column].weigher.weigh_all(&self.request, hosts, &left, &mut weights);
                all.extend(&weights, offered.len());
            }
            self.passing.extend(&left);
        }
    }

    /// Asks them about one host again.
    pub fn ask(&mut self, columns: &[Column<'_>], hosts: &[Host<'_>], at: usize) {
        let host = &hosts[at];
        let passes = self.filters.iter().all(|filter| filter.passes(&self.request, host));
        let weights = self.columns.iter().map(|column| columns[*column].weigher.weigh(&self.request, host));
        let each = self.weights.iter_mut().zip(weights);
        match (self.passing.binary_search(&at), passes) {
            (Ok(place), true) => each.for_each(|(all, weight)| all.set(place, weight)),
            (Ok(place), false) => {
                self.passing.remove(place);
                each.for_each(|(all, _)| all.remove(place));
            }
            (Err(place), true) => {
                self.passing.insert(place, at);
                each.for_each(|(all, weight)| all.insert(place, weight));
            }
            (Err(_), false) => {}
        }
    }

    /// The host with the greatest score; among equals, the one the VM's id draws. Before all, the one it was moved to.
    pub fn best(&mut self, columns: &[Column<'_>], hosts: &[Host<'_>], vm: &Vm) -> Option<(usize, Chosen)> {
        self.score(columns);
        let move_to = vm.recovery.move_to;
        let mut best: Vec<Candidate> = Vec::with_capacity(RUNNERS_UP_MAX + 2);
        for (at, score) in self.passing.iter().zip(&self.scores) {
            let full = best.len() > RUNNERS_UP_MAX;
            if full && move_to.is_none() && best.last().is_some_and(|(_, least, ..)| score < least) {
                continue;
            }
            let node = hosts[*at].id();
            let candidate = (move_to == Some(node), *score, draw(vm.id, node), *at);
            let place = best.partition_point(|better| *better > candidate);
            best.insert(place, candidate);
            best.truncate(RUNNERS_UP_MAX + 1);
        }
        let at = best.first()?.3;
        let scores = best
            .iter()
            .map(|(_, score, _, at)| Score { node: hosts[*at].id(), score_millionths: *score })
            .collect();
        let candidates = u32::try_from(self.passing.len()).unwrap_or(u32::MAX);
        Some((at, Chosen { node: hosts[at].id(), candidates, scores }))
    }

    fn score(&mut self, columns: &[Column<'_>]) {
        self.scores.clear();
        self.scores.resize(self.passing.len(), 0);
        for (column, weights) in self.columns.iter().zip(&self.weights) {
            columns[*column].add(&self.passing, weights, &mut self.scores);
        }
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
