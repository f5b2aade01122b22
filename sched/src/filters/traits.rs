//! Traits that the flavor or the image requires or forbids, in Placement's words: `trait:NAME=required` or
//! `=forbidden`. Any other value refuses every host, where Nova ignores it: a typing error shows.

use holm_model::feasible::Refusal;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

const SCOPE: &str = "trait:";

/// The host has the required traits and none of the forbidden.
#[derive(Clone, Copy, Debug)]
pub struct Traits;

/// Trait and demand of every extra spec and image property that is about one.
fn wanted<'a>(request: &Request<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let spec = &request.vm.spec;
    let all = spec.extra_specs.iter().chain(&spec.image_properties);
    all.filter_map(|(key, demand)| Some((key.strip_prefix(SCOPE)?, demand.as_str())))
}

fn is_met(name: &str, demand: &str, host: &Host<'_>) -> bool {
    matches!((demand, host.node.has_trait(name)), ("required", true) | ("forbidden", false))
}

impl Filter for Traits {
    fn name(&self) -> &'static str {
        "Traits"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        wanted(request).next().is_some()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        let Some((name, demand)) = wanted(request).find(|(name, demand)| !is_met(name, demand, host)) else {
            return Ok(());
        };
        Err(match demand {
            "required" => format!("trait `{name}`: required, the node lacks it"),
            "forbidden" => format!("trait `{name}`: forbidden, the node has it"),
            _ => format!("trait `{name}`: `{demand}` is neither `required` nor `forbidden`"),
        })
    }

    fn fix(&self, request: &Request<'_>, host: &Host<'_>) -> String {
        let unmet = wanted(request).find(|(name, demand)| !is_met(name, demand, host));
        match unmet {
            Some((name, "required")) => {
                format!("if the node has it: `holm node trait NODE {name}`; or a flavor or image without it")
            }
            Some((name, "forbidden")) if host.node.traits.contains(name) => {
                format!(
                    "if the node has it no longer: `holm node trait NODE {name}-`; or a flavor or image without it"
                )
            }
            Some((_, "forbidden")) => {
                "the host itself reports it: a flavor or image that does not forbid it".to_owned()
            }
            _ => "a flavor or image that says `required` or `forbidden`: `holm flavor create`".to_owned(),
        }
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        wanted(request).all(|(name, demand)| is_met(name, demand, host))
    }
}
