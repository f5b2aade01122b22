//! With none of the named VMs; Nova's `DifferentHostFilter`.

use holm_model::feasible::Refusal;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host holds none of the VMs of `different_host`.
#[derive(Clone, Copy, Debug)]
pub struct DifferentHost;

impl Filter for DifferentHost {
    fn name(&self) -> &'static str {
        "DifferentHost"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        !request.different_host.is_empty()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        match request.different_host.iter().find(|mate| mate.node == Some(host.id())) {
            Some(mate) => Err(format!("different host from {}: it is here", mate.words())),
            None => Ok(()),
        }
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "add a node; or create it without that `--different-host`".to_owned()
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        request.different_host.iter().all(|mate| mate.node != Some(host.id()))
    }
}
