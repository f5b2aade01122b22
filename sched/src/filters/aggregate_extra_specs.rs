//! The flavor's extra specs against the metadata of the host's aggregates; Nova's
//! `AggregateInstanceExtraSpecsFilter`. Keys of the scope `aggregate_instance_extra_specs:` and keys
//! without a scope are compared; one of the values over all aggregates must match.

use holm_model::feasible::Refusal;

use crate::extra_specs;
use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

const SCOPE: &str = "aggregate_instance_extra_specs";

/// The host's aggregates meet the flavor.
#[derive(Clone, Copy, Debug)]
pub struct AggregateExtraSpecs;

/// Metadata key and requirement of every extra spec that is about one.
fn wanted<'a>(request: &Request<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
    request.vm.spec.extra_specs.iter().filter_map(|(key, requirement)| {
        let key = match key.split_once(':') {
            None => key,
            Some((SCOPE, key)) => key,
            Some(_) => return None,
        };
        Some((key, requirement.as_str()))
    })
}

impl Filter for AggregateExtraSpecs {
    fn name(&self) -> &'static str {
        "AggregateExtraSpecs"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        wanted(request).next().is_some()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        for (key, requirement) in wanted(request) {
            if host.metadata(key).any(|value| extra_specs::matches(value, requirement)) {
                continue;
            }
            let say: Vec<_> = host.metadata(key).collect();
            let say = match say.as_slice() {
                [] => "do not say".to_owned(),
                say => format!("say {}", say.join(", ")),
            };
            return Err(format!("extra spec `{key}`: {requirement} wanted, its aggregates {say}"));
        }
        Ok(())
    }

    fn fix(&self, request: &Request<'_>, host: &Host<'_>) -> String {
        let met = |key: &str, requirement: &str| {
            host.metadata(key).any(|value| extra_specs::matches(value, requirement))
        };
        let Some((key, _)) = wanted(request).find(|(key, requirement)| !met(key, requirement)) else {
            return String::new();
        };
        format!(
            "say it of an aggregate of the node: `holm aggregate set AGGREGATE --property {key}=VALUE`; or another flavor"
        )
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        wanted(request).all(|(key, requirement)| {
            host.metadata(key).any(|value| extra_specs::matches(value, requirement))
        })
    }
}
