//! The flavor's extra specs against what the node says of itself; Nova's `ComputeCapabilitiesFilter`. Keys
//! of the scope `capabilities:` and keys without a scope are compared; other scopes belong to others. A
//! capability that the node does not report is not met.

use holm_model::feasible::Refusal;

use crate::extra_specs;
use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

const SCOPE: &str = "capabilities";

/// The host's capabilities meet the flavor.
#[derive(Clone, Copy, Debug)]
pub struct ComputeCapabilities;

/// Capability and requirement of every extra spec that is about one.
fn wanted<'a>(request: &Request<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
    request.vm.spec.extra_specs.iter().filter_map(|(key, requirement)| {
        let capability = match key.split_once(':') {
            None => key,
            Some((SCOPE, capability)) => capability,
            Some(_) => return None,
        };
        Some((capability, requirement.as_str()))
    })
}

fn reported<'h>(host: &'h Host<'_>, capability: &str) -> Option<&'h String> {
    host.node.report.as_ref()?.capabilities.get(capability)
}

impl Filter for ComputeCapabilities {
    fn name(&self) -> &'static str {
        "ComputeCapabilities"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        wanted(request).next().is_some()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        for (capability, requirement) in wanted(request) {
            let Some(value) = reported(host, capability) else {
                let detail = format!("{requirement} wanted, the node reports none");
                return Err(format!("capability `{capability}`: {detail}"));
            };
            if !extra_specs::matches(value, requirement) {
                return Err(format!("capability `{capability}`: {requirement} wanted, it is {value}"));
            }
        }
        Ok(())
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "take a flavor without that extra spec (`holm flavor list`); `holm node show NODE` has what the host reports".to_owned()
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        wanted(request).all(|(capability, requirement)| {
            reported(host, capability).is_some_and(|value| extra_specs::matches(value, requirement))
        })
    }
}
