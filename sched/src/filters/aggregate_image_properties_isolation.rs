//! Aggregates that say which images they take: a metadata key that is also a property of the image must
//! name its value; Nova's `AggregateImagePropertiesIsolation`. Properties that the aggregates do not speak
//! of, and images that do not have the property, pass.

use holm_model::feasible::Refusal;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host's aggregates take the image.
#[derive(Clone, Copy, Debug)]
pub struct AggregateImagePropertiesIsolation;

impl Filter for AggregateImagePropertiesIsolation {
    fn name(&self) -> &'static str {
        "AggregateImagePropertiesIsolation"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        !request.vm.spec.image_properties.is_empty()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        // An empty property is none, as in Nova.
        for (property, value) in request.vm.spec.image_properties.iter().filter(|(_, v)| !v.is_empty()) {
            let mut options = host.metadata(property).peekable();
            if options.peek().is_some() && !options.any(|option| option == value) {
                let options: Vec<_> = host.metadata(property).collect();
                let options = options.join(", ");
                return Err(format!(
                    "image property `{property}`: it is {value}, its aggregates take {options} only"
                ));
            }
        }
        Ok(())
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "another image; or let it in: `holm aggregate set AGGREGATE --property KEY=VALUE,VALUE`, `holm aggregate list` \
         names the aggregates of the node"
            .to_owned()
    }
}
