//! What the image needs of a host: architecture, hypervisor, firmware; Nova's `ImagePropertiesFilter`. A
//! node that does not say what it has is refused to an image that asks.

use holm_model::feasible::Refusal;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// Image properties and the capability each is compared with; a capability may list several, by commas.
const PROPERTIES: [(&str, &str); 4] = [
    ("hw_architecture", "arch"),
    ("img_hv_type", "hypervisor_type"),
    ("hw_firmware_type", "firmware"),
    ("hw_firmware", "firmware"),
];

/// The host can run the image.
#[derive(Clone, Copy, Debug)]
pub struct ImageProperties;

/// Property, capability and value wanted.
fn wanted<'a>(request: &Request<'a>) -> impl Iterator<Item = (&'static str, &'static str, &'a str)> {
    let properties = &request.vm.spec.image_properties;
    PROPERTIES
        .into_iter()
        .filter_map(|(property, capability)| Some((property, capability, properties.get(property)?.as_str())))
}

fn reported<'h>(host: &'h Host<'_>, capability: &str) -> Option<&'h str> {
    host.node.report.as_ref()?.capabilities.get(capability).map(String::as_str)
}

/// Whether a list of capabilities has the value, in whatever spelling.
fn offers(has: &str, value: &str) -> bool {
    has.split(',').any(|has| has == value || canonical(has) == canonical(value))
}

/// One spelling of what has several: Nova's `Architecture.canonicalize`, and Go's words.
fn canonical(name: &str) -> String {
    let name = name.trim().to_lowercase();
    match name.as_str() {
        "amd64" | "x86-64" => "x86_64".to_owned(),
        "arm64" => "aarch64".to_owned(),
        "i386" | "i486" | "i586" | "x86_32" | "x86_32p" => "i686".to_owned(),
        _ => name,
    }
}

impl Filter for ImageProperties {
    fn name(&self) -> &'static str {
        "ImageProperties"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        wanted(request).next().is_some()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        for (property, capability, value) in wanted(request) {
            let Some(has) = reported(host, capability) else {
                return Err(format!("image property `{property}`: {value} wanted, the node does not say"));
            };
            if !offers(has, value) {
                return Err(format!("image property `{property}`: {value} wanted, the node has {has}"));
            }
        }
        Ok(())
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "an image made for this host, or the property corrected: `holm image import FILE --property KEY=VALUE`; \
         `holm node show NODE` has what the host can do".to_owned()
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        wanted(request)
            .all(|(_, capability, value)| reported(host, capability).is_some_and(|has| offers(has, value)))
    }
}
