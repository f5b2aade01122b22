//! Counts the VMs being built on a host; the default multiplier is negative: builds spread.

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// VMs in BUILD with a claim here, Nova's `IoOpsWeigher`.
#[derive(Clone, Copy, Debug)]
pub struct IoOps;

impl Weigher for IoOps {
    fn name(&self) -> &'static str {
        "IoOps"
    }

    fn floor(&self) -> Option<i64> {
        Some(0)
    }

    fn weigh(&self, _request: &Request<'_>, host: &Host<'_>) -> i64 {
        i64::from(host.building)
    }
}
