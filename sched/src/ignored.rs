//! What a VM asks for and nobody looks at, since the policy has the filter off that would: told when it is created and
//! explained, so that nothing is ignored in silence.

use std::collections::BTreeMap;

use holm_model::policy::SchedulerPolicy;
use holm_model::vm::VmSpec;

use crate::filters::ImageProperties;

/// A sentence for each filter that `spec` needs and `policy` does not ask.
pub fn ignored(policy: &SchedulerPolicy, spec: &VmSpec) -> Vec<String> {
    let is_off = |filter: &&str| !policy.filters.iter().any(|on| on == filter);
    let asked = asked(spec).into_iter().filter_map(|(filter, what)| Some((filter, what?)));
    asked
        .filter(|(filter, _)| is_off(filter))
        .map(|(filter, what)| {
            format!(
                "it asks for {what}, which nobody looks at: the filter {filter} is off; \
                 `holm scheduler set --enable {filter}`"
            )
        })
        .collect()
}

/// The filters that look at what a VM itself asks for and that can be off, each with what it asks for, if it does.
fn asked(spec: &VmSpec) -> [(&'static str, Option<String>); 9] {
    let wish = &spec.scheduling;
    let some = |any: bool, what: &str| any.then(|| what.to_owned());
    let of_flavor = |scope: &str| key(&spec.extra_specs, |key| key.starts_with(scope));
    let of_image = |is: fn(&str) -> bool| key(&spec.image_properties, is);
    [
        ("AvailabilityZone", wish.availability_zone.as_ref().map(|zone| format!("the zone `{zone}`"))),
        ("NodeSelector", some(!wish.node_selector.is_empty(), "labels of its node")),
        ("SameHost", some(!wish.same_host.is_empty(), "the host of other VMs")),
        ("DifferentHost", some(!wish.different_host.is_empty(), "another host than other VMs")),
        ("SimpleCidrAffinity", wish.near.as_ref().map(|near| format!("a node near `{near}`"))),
        ("ComputeCapabilities", of_flavor("capabilities:")),
        ("AggregateExtraSpecs", of_flavor("aggregate_instance_extra_specs:")),
        ("Traits", of_flavor("trait:").or_else(|| of_image(|key| key.starts_with("trait:")))),
        ("ImageProperties", of_image(ImageProperties::reads)),
    ]
}

fn key(map: &BTreeMap<String, String>, is: impl Fn(&str) -> bool) -> Option<String> {
    map.keys().find(|key| is(key)).map(|key| format!("`{key}`"))
}
