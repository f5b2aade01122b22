//! Keeps PCI devices for those who ask for them: hosts with fewer free devices first, Nova's `PCIWeigher`. Who asks for
//! devices passes only where there are enough, and gets the host with the fewest beyond them.

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// More devices than this weigh the same, as in Nova (`MAX_DEVS`).
const MAX_DEVS: i64 = 100;

/// Few free PCI devices.
#[derive(Clone, Copy, Debug)]
pub struct Pci;

impl Weigher for Pci {
    fn name(&self) -> &'static str {
        "Pci"
    }

    fn weigh(&self, _request: &Request<'_>, host: &Host<'_>) -> i64 {
        let free = i64::from(host.digest().parts.devices);
        MAX_DEVS - free.min(MAX_DEVS - 1)
    }
}
