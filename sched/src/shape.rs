//! What filters and weighers said of every host for VMs of one shape, and the choice that follows.

use holm_model::vm::{RUNNERS_UP_MAX, Score, Vm};
use holm_model::{NodeId, VmId};

use crate::column::Column;
use crate::filter::Filter;
use crate::host::Host;
use crate::policy::Policy;
use crate::request::Request;
use crate::weigher::{Range, weighted};

/// A host for a VM, and how it came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub node: NodeId,
    /// Hosts that passed the filters.
    pub candidates: u32,
    /// The chosen host first, then the runners-up.
    pub scores: Vec<Score>,
}

/// Verdicts and raw weights, by the hosts' indices.
pub(crate) struct Shape<'a> {
    pub request: Request<'a>,
    /// How much of the batch's changes is taken in; none while no host was asked.
    pub seen: Option<usize>,
    filters: Vec<&'a dyn Filter>,
    /// Indices of the columns that tell hosts apart.
    columns: Vec<usize>,
    passed: Vec<bool>,
    /// Column by column; those of refused hosts are stale.
    raw: Vec<i64>,
}

/// A host that passed: whether the VM was moved there, its score, its draw, its index. The greatest is best.
type Candidate = (bool, i64, u64, usize);

impl<'a> Shape<'a> {
    pub fn new(policy: &'a Policy, columns: &[Column<'_>], hosts: usize, request: Request<'a>) -> Self {
        let filters = policy.filters.iter().map(AsRef::as_ref);
        let filters = filters.filter(|filter: &&dyn Filter| filter.applies(&request)).collect();
        let applies = |column: &usize| columns[*column].weigher.applies(&request);
        let columns: Vec<usize> = (0..columns.len()).filter(applies).collect();
        let raw = vec![0; hosts * columns.len()];
        Self { request, seen: None, filters, columns, passed: vec![false; hosts], raw }
    }

    /// Asks filters and weighers about one host again.
    pub fn ask(&mut self, columns: &[Column<'_>], hosts: &[Host<'_>], at: usize) {
        let host = &hosts[at];
        self.passed[at] = self.filters.iter().all(|filter| filter.passes(&self.request, host));
        if self.passed[at] {
            for (place, column) in self.columns.iter().enumerate() {
                self.raw[place * hosts.len() + at] = columns[*column].weigher.weigh(&self.request, host);
            }
        }
    }

    /// The host with the greatest score; among equals, the one the VM's id draws. Before all, the one it was moved to.
    pub fn best(&self, columns: &[Column<'_>], hosts: &[Host<'_>], vm: &Vm) -> Option<(usize, Chosen)> {
        let move_to = vm.recovery.move_to;
        let passing: Vec<usize> =
            self.passed.iter().enumerate().filter(|(_, passed)| **passed).map(|(at, _)| at).collect();
        let scores = self.scores(columns, hosts.len(), &passing);
        let mut best: Vec<Candidate> = Vec::with_capacity(RUNNERS_UP_MAX + 2);
        for (at, score) in passing.iter().zip(scores) {
            let full = best.len() > RUNNERS_UP_MAX;
            let preferred = move_to.is_some_and(|node| node == hosts[*at].id());
            if full && !preferred && best.last().is_some_and(|(_, least, ..)| score < *least) {
                continue;
            }
            let candidate = (preferred, score, draw(vm.id, hosts[*at].id()), *at);
            let place = best.partition_point(|better| *better > candidate);
            best.insert(place, candidate);
            best.truncate(RUNNERS_UP_MAX + 1);
        }
        let at = best.first()?.3;
        let scores = best
            .iter()
            .map(|(_, score, _, at)| Score { node: hosts[*at].id(), score_millionths: *score })
            .collect();
        let candidates = u32::try_from(passing.len()).unwrap_or(u32::MAX);
        Some((at, Chosen { node: hosts[at].id(), candidates, scores }))
    }

    fn scores(&self, columns: &[Column<'_>], hosts: usize, passing: &[usize]) -> Vec<i64> {
        let mut scores = vec![0i64; passing.len()];
        for (place, column) in self.columns.iter().enumerate() {
            let (raw, column) = (&self.raw[place * hosts..(place + 1) * hosts], &columns[*column]);
            let mut range = Range::EMPTY;
            passing.iter().for_each(|at| range.include(raw[*at]));
            if range.is_flat() {
                continue;
            }
            let scale = range.scale();
            for (score, at) in scores.iter_mut().zip(passing) {
                let part = weighted(column.multiplier(*at), scale.normalise(raw[*at]));
                *score = score.saturating_add(part);
            }
        }
        scores
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
