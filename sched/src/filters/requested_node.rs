//! An operator may name the only node they allow. The other filters still hold there.

use holm_model::feasible::{self, Refusal};

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host is the one that was asked for, if one was.
#[derive(Clone, Copy, Debug)]
pub struct RequestedNode;

impl Filter for RequestedNode {
    fn name(&self) -> &'static str {
        "RequestedNode"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        request.vm.spec.node.is_some()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        feasible::requested_node(host.node, request.vm)
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "create it without `--node`; one that waits or is off is set free by `holm vm set NAME --any-node`"
            .to_owned()
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        request.vm.spec.node.is_none_or(|wanted| wanted == host.id())
    }
}
