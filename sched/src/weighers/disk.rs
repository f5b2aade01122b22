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

    fn weigh(&self, _request: &Request<'_>, host: &Host<'_>) -> i64 {
        host.digest().free.disk_gib
    }
}
