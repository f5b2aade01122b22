//! What the image needs of a host: architecture, hypervisor and its version, machine mode, firmware; Nova's
//! `ImagePropertiesFilter`. A node that does not say what it has is refused to an image that asks, but for the version,
//! as in Nova; a property without a value asks for nothing. A disk without a kernel needs firmware, whatever its
//! properties: a node that says it has none would only fail to build it.

use holm_model::feasible::Refusal;
use holm_model::image::ImageKind;
use holm_model::node::version_number;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// Image properties and the capability each is compared with; a capability may list several, by commas.
const PROPERTIES: [(&str, &str); 5] = [
    ("hw_vm_mode", "vm_mode"),
    ("hw_architecture", "arch"),
    ("img_hv_type", "hypervisor_type"),
    ("hw_firmware_type", FIRMWARE),
    ("hw_firmware", FIRMWARE),
];

/// The property that compares the hypervisor's version: `>=53.0`, or several by commas.
const VERSION: &str = "img_hv_requested_version";
type Compare = fn(&i64, &i64) -> bool;

/// Two letters before one.
const OPERATORS: [(&str, Compare); 6] =
    [(">=", i64::ge), ("<=", i64::le), ("==", i64::eq), ("!=", i64::ne), (">", i64::gt), ("<", i64::lt)];

/// The host can run the image.
#[derive(Clone, Copy, Debug)]
pub struct ImageProperties;

impl ImageProperties {
    /// Whether the property is one of those compared here.
    pub fn reads(property: &str) -> bool {
        property == VERSION || PROPERTIES.iter().any(|(read, _)| *read == property)
    }
}

/// The capability that says what boots a disk.
const FIRMWARE: &str = "firmware";

/// Whether it boots a disk by the host's firmware.
fn needs_firmware(request: &Request<'_>) -> bool {
    request.vm.spec.kernel.is_none() && request.image.is_some_and(|image| image.kind != ImageKind::Kernel)
}

/// Whether it is a disk that nothing boots here. What the node does not say is found out by building.
fn is_without_firmware(request: &Request<'_>, host: &Host<'_>) -> bool {
    needs_firmware(request) && reported(host, FIRMWARE) == Some("none")
}

/// Property, capability and value wanted.
fn wanted<'a>(request: &Request<'a>) -> impl Iterator<Item = (&'static str, &'static str, &'a str)> {
    let properties = &request.vm.spec.image_properties;
    PROPERTIES
        .into_iter()
        .filter_map(|(property, capability)| Some((property, capability, properties.get(property)?.as_str())))
        .filter(|(_, _, value)| !value.is_empty())
}

/// The version wanted, if one is.
fn wanted_version<'a>(request: &Request<'a>) -> Option<&'a str> {
    request.vm.spec.image_properties.get(VERSION).map(String::as_str).filter(|wanted| !wanted.is_empty())
}

/// Whether the hypervisor's version is as wanted; none where that cannot be read.
fn is_version(wanted: &str, version: i64) -> Option<bool> {
    let mut met = true;
    for wanted in wanted.split(',').map(str::trim) {
        let (operator, compare) = OPERATORS.iter().find(|(operator, _)| wanted.starts_with(operator))?;
        let number = wanted[operator.len()..].trim();
        if !number.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        met &= compare(&version, &version_number(number));
    }
    Some(met)
}

fn check_version(wanted: &str, host: &Host<'_>) -> Result<(), Refusal> {
    match is_version(wanted, host.digest().version) {
        _ if host.digest().version == 0 => Ok(()),
        Some(true) => Ok(()),
        Some(false) => {
            let has = host.node.report.as_ref().map_or("", |report| &report.hypervisor.version);
            Err(format!("image property `{VERSION}`: {wanted} wanted, the node has {has}"))
        }
        None => Err(format!("image property `{VERSION}`: `{wanted}` is no version, such as >=53.0")),
    }
}

fn reported<'h>(host: &'h Host<'_>, capability: &str) -> Option<&'h str> {
    host.node.report.as_ref()?.capabilities.get(capability).map(String::as_str)
}

/// Whether a list of capabilities has the value, in whatever spelling.
fn offers(has: &str, value: &str) -> bool {
    has.split(',').any(|has| has == value || canonical(has) == canonical(value))
}

/// One spelling of what has several: Nova's `Architecture.canonicalize` and `VMMode.canonicalize`, and Go's words.
fn canonical(name: &str) -> String {
    let name = name.trim().to_lowercase();
    match name.as_str() {
        "amd64" | "x86-64" => "x86_64".to_owned(),
        "arm64" => "aarch64".to_owned(),
        "hv" | "baremetal" => "hvm".to_owned(),
        "pv" => "xen".to_owned(),
        "i386" | "i486" | "i586" | "x86_32" | "x86_32p" => "i686".to_owned(),
        _ => name,
    }
}

impl Filter for ImageProperties {
    fn name(&self) -> &'static str {
        "ImageProperties"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        needs_firmware(request) || wanted(request).next().is_some() || wanted_version(request).is_some()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        if is_without_firmware(request, host) {
            return Err("the node has no firmware to boot a disk image".to_owned());
        }
        for (property, capability, value) in wanted(request) {
            let Some(has) = reported(host, capability) else {
                return Err(format!("image property `{property}`: {value} wanted, the node does not say"));
            };
            if !offers(has, value) {
                return Err(format!("image property `{property}`: {value} wanted, the node has {has}"));
            }
        }
        wanted_version(request).map_or(Ok(()), |wanted| check_version(wanted, host))
    }

    fn fix(&self, request: &Request<'_>, host: &Host<'_>) -> String {
        if is_without_firmware(request, host) {
            return "boot it with a kernel image: `holm vm create … --kernel IMAGE`; or give the node firmware: \
                    `firmware` under `[hypervisor]` in its holmd.toml"
                .to_owned();
        }
        "an image made for this host, or the property corrected: `holm image import FILE --property KEY=VALUE`; \
         `holm node show NODE` has what the host can do".to_owned()
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        let offers = |(_, capability, value): (_, &str, &str)| {
            reported(host, capability).is_some_and(|has| offers(has, value))
        };
        !is_without_firmware(request, host)
            && wanted(request).all(offers)
            && wanted_version(request).is_none_or(|wanted| {
                host.digest().version == 0 || is_version(wanted, host.digest().version) == Some(true)
            })
    }
}
