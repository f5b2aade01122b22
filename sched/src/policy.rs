//! Which filters and weighers are in use. The filters mirror `holm_model::feasible::feasible`, rule for
//! rule and in its order, so that a refusal names the same rule here and at apply.

use holm_model::feasible::Refusal;

use crate::filter::{Filter, Host, Request};
use crate::filters::{Capacity, ComputeStatus, Excluded, RequestedNode};
use crate::weigher::Weigher;
use crate::weighers::{Cpu, Ram};

/// Filters in the order they are asked, and weighers.
pub struct Policy {
    pub filters: Vec<Box<dyn Filter>>,
    pub weighers: Vec<Box<dyn Weigher>>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            filters: vec![
                Box::new(ComputeStatus),
                Box::new(RequestedNode),
                Box::new(Excluded),
                Box::new(Capacity),
            ],
            weighers: vec![Box::new(Ram), Box::new(Cpu)],
        }
    }
}

impl Policy {
    /// Whether every filter passes.
    pub fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        self.filters.iter().all(|filter| filter.passes(request, host))
    }

    /// The first filter that refuses, by name, and why.
    ///
    /// # Errors
    /// That filter's name and refusal.
    pub fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), (&'static str, Refusal)> {
        self.filters
            .iter()
            .try_for_each(|filter| filter.check(request, host).map_err(|refusal| (filter.name(), refusal)))
    }
}
