//! One weigher's part in a decision: its multiplier on every host. Weighers that count nowhere have none.

use holm_model::State;

use crate::host::Host;
use crate::policy::{Policy, Weighing};
use crate::weigher::{Range, Weigher, weighted};

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

    /// Adds to the `scores` of `these` hosts what their `raw` weights count.
    pub fn add(&self, these: &[usize], raw: &[i64], scores: &mut [i64]) {
        let range = Range::of(raw).from(self.weigher.floor());
        if range.is_flat() {
            return;
        }
        let scale = range.scale();
        let scores = scores.iter_mut().zip(raw);
        match &self.multipliers {
            // The usual one, and the division would be half the work.
            Multipliers::Same(THOUSAND) => scores.for_each(|(score, raw)| *score += scale.normalise(*raw)),
            Multipliers::Same(multiplier) => {
                scores.for_each(|(score, raw)| *score += weighted(*multiplier, scale.normalise(*raw)));
            }
            Multipliers::PerHost(each) => scores.zip(these).for_each(|((score, raw), at)| {
                *score += weighted(each[*at], scale.normalise(*raw));
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
