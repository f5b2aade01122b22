//! PCI devices for a VM whose flavor says `pci_passthrough:alias=NAME:COUNT`; Nova's `PciPassthroughFilter`. Apply asks
//! the same rule.

use holm_model::feasible::{self, Refusal};

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host has so many devices of each alias that no VM holds.
#[derive(Clone, Copy, Debug)]
pub struct PciDevices;

impl Filter for PciDevices {
    fn name(&self) -> &'static str {
        "PciDevices"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        request.parts.is_some()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        match feasible::parts_for(host.node, host.parts(), request.vm) {
            Err((by, refusal)) if by == self.name() => Err(refusal),
            _ => Ok(()),
        }
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "move or delete VMs that hold some (`holm vm list --node NODE`); or offer more: `[[pci]]` in the configuration \
         of its `holmd`".to_owned()
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        match &request.parts {
            Some(Ok(wanted)) => host.parts().has_devices(wanted),
            Some(Err(_)) => true,
            None => true,
        }
    }
}
