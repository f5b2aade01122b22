//! One weigher's part in a decision: its multiplier on every host. Weighers that count nowhere have none.

mod weights;

use std::iter::repeat;

use holm_model::State;

pub use self::weights::Weights;
use crate::host::Host;
use crate::policy::{Policy, Weighing};
use crate::weigher::{Weigher, weighted};

/// A weigher that counts somewhere.
pub struct Column<'p> {
    pub weigher: &'p dyn Weigher,
    multipliers: Multipliers,
}

/// The multiplier 1.
const THOUSAND: i64 = 1_000;

/// In thousandths.
enum Multipliers {
    Same(i64),
    /// By the host's index.
    PerHost(Vec<i64>),
}

impl<'p> Column<'p> {
    /// The columns of `policy` over `hosts`.
    pub fn all(policy: &'p Policy, state: &State, hosts: &[Host<'_>]) -> Vec<Self> {
        let column = |weighing: &'p Weighing| {
            let overridden = state.aggregates.values().any(|aggregate| weighing.is_overridden_by(aggregate));
            let multipliers = if overridden {
                Multipliers::PerHost(hosts.iter().map(|host| weighing.multiplier_thousandths(host)).collect())
            } else {
                Multipliers::Same(weighing.default_multiplier_thousandths())
            };
            let counts = !matches!(multipliers, Multipliers::Same(0));
            counts.then_some(Self { weigher: weighing.weigher.as_ref(), multipliers })
        };
        policy.weighers.iter().filter_map(column).collect()
    }

    /// Adds to the `scores` of `these` hosts what their weights count.
    pub fn add(&self, these: &[usize], weights: &Weights, scores: &mut [i64]) {
        let range = weights.range().from(self.weigher.floor());
        if range.is_flat() {
            return;
        }
        let scale = range.scale();
        match weights {
            Weights::Same { weight, .. } => self.add_all(these, repeat(scale.normalise(*weight)), scores),
            Weights::Each(each) => match scale.table(each.len()) {
                Some(table) => self.add_all(these, each.iter().map(|raw| table.normalise(*raw)), scores),
                None => self.add_all(these, each.iter().map(|raw| scale.normalise(*raw)), scores),
            },
        }
    }

    #[inline]
    fn add_all(&self, these: &[usize], normalised: impl Iterator<Item = i64>, scores: &mut [i64]) {
        let scores = scores.iter_mut().zip(normalised);
        match &self.multipliers {
            // The division would be half the work.
            Multipliers::Same(multiplier) if multiplier % THOUSAND == 0 => {
                let multiplier = multiplier / THOUSAND;
                scores.for_each(|(score, normalised)| *score += multiplier * normalised);
            }
            Multipliers::Same(multiplier) => {
                scores.for_each(|(score, normalised)| *score += weighted(*multiplier, normalised));
            }
            Multipliers::PerHost(each) => scores.zip(these).for_each(|((score, normalised), at)| {
                *score += weighted(each[*at], normalised);
            }),
        }
    }

    /// In thousandths.
    pub fn multiplier(&self, host: usize) -> i64 {
        match &self.multipliers {
            Multipliers::Same(multiplier) => *multiplier,
            Multipliers::PerHost(each) => each[host],
        }
    }
}
