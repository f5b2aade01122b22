//! Prefers hosts with the newer hypervisor, Nova's `HypervisorVersionWeigher`; 0 where there is none.

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// `v53.2.1` as 53,002,001.
#[derive(Clone, Copy, Debug)]
pub struct HypervisorVersion;

impl Weigher for HypervisorVersion {
    fn name(&self) -> &'static str {
        "HypervisorVersion"
    }

    fn weigh(&self, _request: &Request<'_>, host: &Host<'_>) -> i64 {
        host.digest().version
    }
}
