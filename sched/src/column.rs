//! One weigher's part in a decision: its multiplier on every host. Weighers that count nowhere have none.

use crate::host::Host;
use crate::policy::Policy;
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
    pub fn all(policy: &'p Policy, hosts: &[Host<'_>]) -> Vec<Self> {
        let in_aggregates = hosts.iter().any(|host| !host.aggregates.is_empty());
        let column = |weighing: &'p crate::policy::Weighing| {
            let multipliers = if in_aggregates {
                let each = hosts.iter().map(|host| weighing.multiplier_thousandths(host));
                Multipliers::of(each.collect())
            } else {
                Multipliers::Same(hosts.first().map_or(0, |host| weighing.multiplier_thousandths(host)))
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

impl Multipliers {
    fn of(each: Vec<i64>) -> Self {
        match each.first() {
            Some(first) if each.iter().any(|multiplier| multiplier != first) => Self::PerHost(each),
            first => Self::Same(first.copied().unwrap_or(0)),
        }
    }
}
