//! The flavor's extra specs against what the node says of itself, and what the cluster counts on it; Nova's
//! `ComputeCapabilitiesFilter`. A capability of the scope `capabilities:` must be there and match; a key without a
//! scope is compared where the host has it, and else means something else; other scopes belong to others.

use std::borrow::Cow;

use holm_model::feasible::Refusal;
use holm_model::{ResourceClass, State};

use crate::extra_specs;
use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

const SCOPE: &str = "capabilities";

/// Nova's names for what is known of every host.
const COUNTED: [&str; 8] = [
    "host",
    "free_ram_mb",
    "free_disk_mb",
    "vcpus_total",
    "vcpus_used",
    "num_instances",
    "num_io_ops",
    "hypervisor_version",
];

/// The host's capabilities meet the flavor.
#[derive(Clone, Copy, Debug)]
pub struct ComputeCapabilities;

/// What an extra spec wants of a capability.
struct Wanted<'a> {
    capability: &'a str,
    requirement: &'a str,
    /// Whether the host must have it.
    is_scoped: bool,
}

impl Wanted<'_> {
    /// What `host` has instead of what is wanted; none where it will do.
    fn unmet(&self, host: &Host<'_>) -> Option<Option<String>> {
        match reported(host, self.capability) {
            None => self.is_scoped.then_some(None),
            Some(has) if extra_specs::matches(&has, self.requirement) => None,
            Some(has) => Some(Some(has.into_owned())),
        }
    }
}

/// Every extra spec that may be about a capability.
fn wanted<'a>(request: &Request<'a>) -> impl Iterator<Item = Wanted<'a>> {
    request.vm.spec.extra_specs.iter().filter_map(|(key, requirement)| {
        let (capability, is_scoped) = match key.split_once(':') {
            None => (key.as_str(), false),
            Some((SCOPE, capability)) => (capability, true),
            Some(_) => return None,
        };
        Some(Wanted { capability, requirement, is_scoped })
    })
}

/// What the host has of a capability: Nova's names for what is counted, else what it reports. Free is what claims
/// leave of what may be claimed; a version is Nova's number, `53.1.2` as 53001002.
fn reported<'h>(host: &'h Host<'_>, capability: &str) -> Option<Cow<'h, str>> {
    let vcpus = ResourceClass::Vcpu;
    let number = match capability {
        "host" => return Some(Cow::Borrowed(&host.node.name)),
        "free_ram_mb" => host.free().memory_mib.to_string(),
        "free_disk_mb" => host.free().disk_gib.saturating_mul(1024).to_string(),
        "vcpus_total" => host.node.inventory.get(&vcpus).map_or(0, |vcpus| vcpus.total).to_string(),
        "vcpus_used" => host.claimed().get(&vcpus).to_string(),
        "num_instances" => host.digest().vms.to_string(),
        "num_io_ops" => host.building.to_string(),
        "hypervisor_version" if host.digest().version > 0 => host.digest().version.to_string(),
        _ => return host.node.report.as_ref()?.capabilities.get(capability).map(|has| has.into()),
    };
    Some(Cow::Owned(number))
}

impl ComputeCapabilities {
    /// Whether a node has a capability of this name.
    pub fn is_known(state: &State, capability: &str) -> bool {
        let mut reports = state.nodes.values().filter_map(|node| node.report.as_ref());
        COUNTED.contains(&capability) || reports.any(|report| report.capabilities.contains_key(capability))
    }
}

impl Filter for ComputeCapabilities {
    fn name(&self) -> &'static str {
        "ComputeCapabilities"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        wanted(request).next().is_some()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        let unmet = wanted(request).find_map(|wanted| Some((wanted.unmet(host)?, wanted)));
        let Some((has, Wanted { capability, requirement, .. })) = unmet else { return Ok(()) };
        let has = has.map_or("the node reports none".to_owned(), |has| format!("it is {has}"));
        Err(format!("capability `{capability}`: {requirement} wanted, {has}"))
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "take a flavor without that extra spec (`holm flavor list`); `holm node show NODE` has what the host reports".to_owned()
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        wanted(request).all(|wanted| wanted.unmet(host).is_none())
    }
}
