//! With one of the named VMs; Nova's `SameHostFilter`. While none of them has a host, none will do.

use holm_model::feasible::Refusal;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::{Mate, Request};

/// The host holds one of the VMs of `same_host`.
#[derive(Clone, Copy, Debug)]
pub struct SameHost;

impl Filter for SameHost {
    fn name(&self) -> &'static str {
        "SameHost"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        !request.same_host.is_empty()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        let wanted = &request.same_host;
        if self.passes(request, host) {
            return Ok(());
        }
        let names: Vec<String> = wanted.iter().map(Mate::words).collect();
        let nowhere = wanted.iter().all(|mate| mate.node.is_none());
        let detail = match nowhere {
            true if wanted.iter().all(|mate| mate.name.is_none()) => "it never has a host again",
            true => "none has a host yet",
            false => "none of them is here",
        };
        Err(format!("same host as {}: {detail}", names.join(", ")))
    }

    fn fix(&self, request: &Request<'_>, _host: &Host<'_>) -> String {
        let wanted = &request.same_host;
        if wanted.iter().any(|mate| mate.node.is_some()) {
            return "make room on the node of the other; or create it without `--same-host`".to_owned();
        }
        match wanted.iter().find_map(|mate| mate.name) {
            Some(name) => format!(
                "first see that it gets a host: `holm vm explain {name}`; or create this one without `--same-host`"
            ),
            None => "the other is gone: delete this one, and create it without `--same-host`, or with that of a VM that \
                     is there"
                .to_owned(),
        }
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        let wanted = &request.same_host;
        wanted.is_empty() || wanted.iter().any(|mate| mate.node == Some(host.id()))
    }
}
