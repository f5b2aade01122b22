//! What a VM asks for and nobody looks at, since the policy has the filter off that would, or since nothing here reads
//! it: told when it is created and explained, so that nothing is ignored in silence.

use std::collections::BTreeMap;

use holm_model::State;
use holm_model::extra_specs::{self, AGGREGATES, CAPABILITIES, TRAIT};
use holm_model::vm::VmSpec;

use crate::filters::{ComputeCapabilities, ImageProperties};

/// A sentence for each filter that `spec` needs and the policy does not ask, and one for what nothing reads.
pub fn ignored(state: &State, spec: &VmSpec) -> Vec<String> {
    let is_off = |filter: &&str| !state.scheduler.filters.iter().any(|on| on == filter);
    let asked = asked(state, spec).into_iter().filter_map(|(filter, what)| Some((filter, what?)));
    let off = asked.filter(|(filter, _)| is_off(filter)).map(|(filter, what)| {
        format!(
            "it asks for {what}, which nobody looks at: the filter {filter} is off; \
             `holm scheduler set --enable {filter}`"
        )
    });
    // Flavors of before such keys were refused.
    let unread = keys(&spec.extra_specs, |key| !extra_specs::is_read(key));
    off.chain(unread.map(|keys| format!("its flavor asks for {keys}, which nothing in Holm reads"))).collect()
}

/// The filters that look at what a VM itself asks for and that can be off, each with what it asks for, if it does.
fn asked(state: &State, spec: &VmSpec) -> [(&'static str, Option<String>); 10] {
    let wish = &spec.scheduling;
    let some = |any: bool, what: &str| any.then(|| what.to_owned());
    let of_flavor = |scope: &str| keys(&spec.extra_specs, |key| key.starts_with(scope));
    let of_image = |is: fn(&str) -> bool| keys(&spec.image_properties, is);
    // A key without a scope is about a fact where a node has it, and else about aggregates.
    let is_fact = |key: &str| extra_specs::is_free(key) && ComputeCapabilities::is_known(state, key);
    let is_of_aggregates = |key: &str| extra_specs::is_free(key) && !is_fact(key);
    let facts = keys(&spec.extra_specs, |key| key.starts_with(CAPABILITIES) || is_fact(key));
    let of_aggregates = keys(&spec.extra_specs, |key| key.starts_with(AGGREGATES) || is_of_aggregates(key));
    [
        ("AvailabilityZone", wish.availability_zone.as_ref().map(|zone| format!("the zone `{zone}`"))),
        ("NodeSelector", some(!wish.node_selector.is_empty(), "labels of its node")),
        ("SameHost", some(!wish.same_host.is_empty(), "the host of other VMs")),
        ("DifferentHost", some(!wish.different_host.is_empty(), "another host than other VMs")),
        ("SimpleCidrAffinity", wish.near.as_ref().map(|near| format!("a node near `{near}`"))),
        ("ComputeCapabilities", facts),
        ("AggregateExtraSpecs", of_aggregates),
        ("Traits", of_flavor(TRAIT).or_else(|| of_image(|key| key.starts_with(TRAIT)))),
        ("ImageProperties", of_image(ImageProperties::reads)),
        (
            "AggregateImagePropertiesIsolation",
            of_image(|key| !ImageProperties::reads(key) && !key.starts_with(TRAIT)),
        ),
    ]
}

fn keys(map: &BTreeMap<String, String>, is: impl Fn(&str) -> bool) -> Option<String> {
    let keys: Vec<String> = map.keys().filter(|key| is(key)).map(|key| format!("`{key}`")).collect();
    (!keys.is_empty()).then(|| keys.join(", "))
}
