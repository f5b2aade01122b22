//! Affinity and anti-affinity with the members that have a host, those of the same batch included; Nova's
//! `ServerGroupAffinityFilter` and `ServerGroupAntiAffinityFilter`. Apply asks the same rule.

use holm_model::feasible::{self, Refusal};
use holm_model::group::GroupPolicy;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::{Group, Request};

/// The host keeps the VM's group together, or apart.
#[derive(Clone, Copy, Debug)]
pub struct ServerGroup;

impl Filter for ServerGroup {
    fn name(&self) -> &'static str {
        "ServerGroup"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        let policy = request.group.as_ref().map(|group| group.record.policy);
        matches!(policy, Some(GroupPolicy::Affinity | GroupPolicy::AntiAffinity))
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        let Some(group) = &request.group else { return Ok(()) };
        feasible::server_group(group.record, group.members(host.id()))
    }

    fn fix(&self, request: &Request<'_>, host: &Host<'_>) -> String {
        let Some(group) = &request.group else { return String::new() };
        let (name, here) = (&group.record.name, group.members(host.id()).here);
        match group.record.policy {
            GroupPolicy::Affinity => format!(
                "make room on the node of the group (`holm group show {name}` names it); or create it without `--group`"
            ),
            _ => format!(
                "add a node; or allow more of them on one: `holm group set {name} --max-per-host {}`",
                here.saturating_add(1)
            ),
        }
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        let members = |group: &Group<'_>| group.members(host.id());
        request.group.as_ref().is_none_or(|group| feasible::fits_group(group.record, members(group)))
    }
}
