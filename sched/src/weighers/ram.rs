//! Prefers hosts with more free memory: VMs spread.

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// Free memory in MiB, overcommit included, Nova's `RAMWeigher`.
#[derive(Clone, Copy, Debug)]
pub struct Ram;

impl Weigher for Ram {
    fn name(&self) -> &'static str {
        "Ram"
    }

    fn floor(&self) -> Option<i64> {
        Some(0)
    }

    fn weigh(&self, _request: &Request<'_>, host: &Host<'_>) -> i64 {
        host.free().memory_mib
    }
}
