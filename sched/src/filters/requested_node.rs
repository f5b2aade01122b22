//! An operator may name the only node they allow. The other filters still hold there.

use holm_model::feasible::{self, Refusal};

use crate::filter::{Filter, Host, Request};

/// The host is the one that was asked for, if one was.
#[derive(Clone, Copy, Debug)]
pub struct RequestedNode;

impl Filter for RequestedNode {
    fn name(&self) -> &'static str {
        "RequestedNode"
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        feasible::requested_node(host.node, request.vm)
    }
}
