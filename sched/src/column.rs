//! One weigher's part in a decision: its multiplier on every host. Weighers that count nowhere have none.

use holm_model::State;

use crate::host::Host;
use crate::policy::{Policy, Weighing};
use crate::weigher::Weigher;

/// A weigher that counts somewhere.
pub struct Column<'p> {
    pub weigher: &'p dyn Weigher,
    multipliers: Multipliers,
}

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

    /// In thousandths.
    pub fn multiplier(&self, host: usize) -> i64 {
        match &self.multipliers {
            Multipliers::Same(multiplier) => *multiplier,
            Multipliers::PerHost(each) => each[host],
        }
    }
}
