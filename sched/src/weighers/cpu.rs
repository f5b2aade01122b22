//! Prefers hosts with more free vCPUs: VMs spread.

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// Free vCPUs, overcommit included, Nova's `CPUWeigher`.
#[derive(Clone, Copy, Debug)]
pub struct Cpu;

impl Weigher for Cpu {
    fn name(&self) -> &'static str {
        "Cpu"
    }

    fn floor(&self) -> Option<i64> {
        Some(0)
    }

    fn weigh(&self, _request: &Request<'_>, host: &Host<'_>) -> i64 {
        host.free().vcpus
    }
}
