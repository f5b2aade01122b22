//! Prefers hosts with more free disk: VMs spread.

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// Free disk in GiB, overcommit included, Nova's `DiskWeigher`.
#[derive(Clone, Copy, Debug)]
pub struct Disk;

impl Weigher for Disk {
    fn name(&self) -> &'static str {
        "Disk"
    }

    fn floor(&self) -> Option<i64> {
        Some(0)
    }

    fn weigh(&self, _request: &Request<'_>, host: &Host<'_>) -> i64 {
        host.free().disk_gib
    }
}
