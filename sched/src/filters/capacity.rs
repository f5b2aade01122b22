//! Claims never exceed `(total - reserved) × ratio`, for every resource class, and each is an amount the
//! inventory takes, as OpenStack Placement counts.

use holm_model::feasible::{self, Refusal};

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host has room for the claim.
#[derive(Clone, Copy, Debug)]
pub struct Capacity;

impl Filter for Capacity {
    fn name(&self) -> &'static str {
        "Capacity"
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        feasible::capacity(host.node, &host.claimed, &request.claim)
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        let told = request.wanted.fits(host);
        told.unwrap_or_else(|| feasible::has_capacity(host.node, &host.claimed, &request.claim))
    }
}
