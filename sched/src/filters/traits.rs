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

impl Filter for Traits {
    fn name(&self) -> &'static str {
        "Traits"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        wanted(request).next().is_some()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        for (name, demand) in wanted(request) {
            match (demand, host.node.has_trait(name)) {
                ("required", true) | ("forbidden", false) => {}
                ("required", false) => return Err(format!("trait `{name}`: required, the node lacks it")),
                ("forbidden", true) => return Err(format!("trait `{name}`: forbidden, the node has it")),
                _ => return Err(format!("trait `{name}`: `{demand}` is neither `required` nor `forbidden`")),
            }
        }
        Ok(())
    }
}
