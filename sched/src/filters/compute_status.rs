//! Nothing is placed on a host that is down, cordoned or has not said what it has; Nova's
//! `ComputeFilter`.

use holm_model::feasible::{self, Refusal};

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host is up, enabled, has reported, and its hypervisor can work.
#[derive(Clone, Copy, Debug)]
pub struct ComputeStatus;

impl Filter for ComputeStatus {
    fn name(&self) -> &'static str {
        "ComputeStatus"
    }

    fn check(&self, _request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        feasible::compute_status(host.node)
    }

    fn passes(&self, _request: &Request<'_>, host: &Host<'_>) -> bool {
        host.has_status
    }
}
