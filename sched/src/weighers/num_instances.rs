//! Counts the VMs on a host: a positive multiplier packs by number, a negative one spreads. Off by default.

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// VMs with a claim here, Nova's `NumInstancesWeigher`.
#[derive(Clone, Copy, Debug)]
pub struct NumInstances;

impl Weigher for NumInstances {
    fn name(&self) -> &'static str {
        "NumInstances"
    }

    fn weigh(&self, _request: &Request<'_>, host: &Host<'_>) -> i64 {
        i64::from(host.digest().vms)
    }
}
