//! The scheduler's policy, there and back.

use std::collections::BTreeSet;

use holm_api as api;
use holm_model::policy::{ALWAYS, FILTERS, LATER_WEIGHERS, NPlusOne, REQUIRED, WEIGHERS};
use holm_model::reply::Kind;
use holm_model::{self as model, ImageId, State};

use super::placement::thousandths;
use crate::http::problem::{Failure, Result};

/// The policy in force. An image that it isolates is shown as `PROJECT/NAME`, which means it alone in every project.
pub fn policy(state: &State) -> api::SchedulerPolicy {
    let policy = &state.scheduler;
    let image = |item: &String| {
        let image = item.parse().ok().and_then(|id: ImageId| state.images.get(&id));
        image.map_or_else(|| item.clone(), |image| format!("{}/{}", image.project, image.name))
    };
    // What names nobody any more is shown as it is stored, so that it may be sent back.
    let node = |item: &String| {
        let node = item.parse().ok().and_then(|id| state.nodes.get(&id));
        node.map_or_else(|| item.clone(), |node| node.name.clone())
    };
    let decimal = |multiplier: i64| multiplier as f64 / 1e3;
    api::SchedulerPolicy {
        filters: policy.filters.clone(),
        weighers: WEIGHERS
            .iter()
            .map(|(name, _)| ((*name).to_owned(), policy.multiplier(name)))
            .filter(|(_, by)| *by != 0)
            .map(|(name, by)| (name, decimal(by)))
            .collect(),
        max_instances_per_host: policy.max_instances_per_host,
        max_io_ops_per_host: policy.max_io_ops_per_host,
        isolated_images: policy.isolated_images.iter().map(image).collect(),
        isolated_nodes: policy.isolated_nodes.iter().map(node).collect(),
        restrict_isolated_hosts_to_isolated_images: policy.restrict_isolated_hosts_to_isolated_images,
        reserve_after_s: policy.reserve_after_s,
        build_timeout_s: policy.build_timeout_s,
        n_plus_one: n_plus_one(policy.n_plus_one),
        preemption: policy.preemption,
        known_filters: FILTERS.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect(),
        known_weighers: WEIGHERS.iter().map(|(name, by)| ((*name).to_owned(), decimal(*by))).collect(),
        required_filters: REQUIRED.iter().chain(ALWAYS).map(|name| (*name).to_owned()).collect(),
        always_filters: ALWAYS.iter().map(|name| (*name).to_owned()).collect(),
        warnings: Vec::new(),
        revision: policy.revision.0,
    }
}

pub fn n_plus_one(asked: NPlusOne) -> api::NPlusOne {
    match asked {
        NPlusOne::Off => api::NPlusOne::Off,
        NPlusOne::Warn => api::NPlusOne::Warn,
        NPlusOne::Refuse => api::NPlusOne::Refuse,
    }
}

/// The policy a client sent; what it left out is as by default.
///
/// # Errors
/// A multiplier that is no decimal number with three decimals; a filter that is always asked, and so never listed.
pub fn to_policy(sent: &api::SetSchedulerPolicy) -> Result<model::policy::SchedulerPolicy> {
    let mut policy = model::policy::SchedulerPolicy::default();
    let sent = sent.clone();
    if let Some(name) = sent.filters.iter().flatten().find(|name| ALWAYS.contains(&name.as_str())) {
        let message = format!("filters: {name} is always asked, after those listed: leave it out");
        return Err(Failure::new(api::Code::InvalidField, message).field("filters"));
    }
    if let Some(weighers) = sent.weighers {
        let one = |(name, multiplier): (String, f64)| {
            let multiplier = thousandths(&format!("weighers.{name}"), multiplier)?;
            Ok((name, multiplier))
        };
        policy.weighers = weighers.into_iter().map(one).collect::<Result<_>>()?;
        // Those that are not named are off, these too.
        for name in LATER_WEIGHERS {
            policy.weighers.entry((*name).to_owned()).or_insert(0);
        }
    }
    let keep = |list: &mut Vec<String>, sent: Option<Vec<String>>| {
        *list = sent.unwrap_or_else(|| std::mem::take(list))
    };
    keep(&mut policy.filters, sent.filters);
    keep(&mut policy.isolated_images, sent.isolated_images);
    keep(&mut policy.isolated_nodes, sent.isolated_nodes);
    policy.max_instances_per_host = sent.max_instances_per_host.unwrap_or(policy.max_instances_per_host);
    policy.max_io_ops_per_host = sent.max_io_ops_per_host.unwrap_or(policy.max_io_ops_per_host);
    policy.reserve_after_s = sent.reserve_after_s.unwrap_or(policy.reserve_after_s);
    policy.build_timeout_s = sent.build_timeout_s.unwrap_or(policy.build_timeout_s);
    policy.n_plus_one = sent.n_plus_one.map_or(policy.n_plus_one, |asked| match asked {
        api::NPlusOne::Off => NPlusOne::Off,
        api::NPlusOne::Warn => NPlusOne::Warn,
        api::NPlusOne::Refuse => NPlusOne::Refuse,
    });
    policy.preemption = sent.preemption.unwrap_or(policy.preemption);
    policy.restrict_isolated_hosts_to_isolated_images = sent
        .restrict_isolated_hosts_to_isolated_images
        .unwrap_or(policy.restrict_isolated_hosts_to_isolated_images);
    Ok(policy)
}

/// The ids of what `policy` isolates by name: images of `project`, of `default`, or `PROJECT/NAME`. Names that are in
/// force since names were stored, and no longer say which one, stay as they are.
///
/// # Errors
/// Names the field and what there is not.
pub fn isolate_by_id(
    state: &State,
    project: &str,
    policy: &mut model::policy::SchedulerPolicy,
) -> Result<()> {
    let stored = &state.scheduler;
    // What is stored stays: a name of old means every project's image of that name, and its id only one of them.
    for item in policy.isolated_images.iter_mut().filter(|item| !stored.isolated_images.contains(item)) {
        let image = match item.split_once('/') {
            Some((project, name)) => state.find_image(project, name),
            None => state.find_image(project, item).or_else(|| state.find_usable_image(project, item)),
        };
        match image {
            Some(image) => *item = image.id.to_string(),
            None => {
                let unknown = Failure::unknown_reference("isolated_images", Kind::Image, item);
                return Err(unknown.hint("an image of another project is written PROJECT/NAME"));
            }
        }
    }
    for item in policy.isolated_nodes.iter_mut().filter(|item| !stored.isolated_nodes.contains(item)) {
        match state.find_node(item) {
            Some(node) => *item = node.id.to_string(),
            None => return Err(Failure::unknown_reference("isolated_nodes", Kind::Node, item)),
        }
    }
    for items in [&mut policy.isolated_images, &mut policy.isolated_nodes] {
        let mut seen = BTreeSet::new();
        items.retain(|item| seen.insert(item.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn decimals_become_thousandths_or_are_refused() {
        let read = |number| thousandths("weighers.Ram", number).map_err(|failure| failure.field);
        for (number, expected) in
            [(1.0, 1000), (-0.5, -500), (1.001, 1001), (0.1, 100), (16.1, 16_100), (0.0, 0)]
        {
            assert_eq!(read(number), Ok(expected));
        }
        for number in [f64::NAN, f64::INFINITY, 1e300, -1e10, 0.0001, 1.0005] {
            assert_eq!(read(number), Err(Some("weighers.Ram".to_owned())), "{number}");
        }
    }

    #[test]
    fn what_is_isolated_already_stays_as_it_is_written() {
        let mut state = State::default();
        state.scheduler.isolated_images = vec!["golden".to_owned()];
        // Of one project; the name means every project's.
        let image = model::image::Image {
            id: ImageId(uuid::Uuid::from_u128(1)),
            project: "default".to_owned(),
            name: "golden".to_owned(),
            kind: model::image::ImageKind::RawDisk,
            size_bytes: 1,
            sha256: String::new(),
            properties: BTreeMap::new(),
            holders: Default::default(),
            created_at: model::Timestamp(0),
            revision: model::Revision(1),
        };
        state.images.insert(image.id, image);
        let mut policy = state.scheduler.clone();
        isolate_by_id(&state, "default", &mut policy).unwrap();
        assert_eq!(policy, state.scheduler);
    }

    #[test]
    fn a_node_that_is_gone_stays_as_it_is_stored_and_nothing_is_stored_twice() {
        let mut state = State::default();
        state.scheduler.isolated_nodes = vec!["7".to_owned()];
        assert_eq!(policy(&state).isolated_nodes, ["7"]);
        let mut sent = state.scheduler.clone();
        sent.isolated_nodes.push("7".to_owned());
        isolate_by_id(&state, "default", &mut sent).unwrap();
        assert_eq!(sent, state.scheduler);
    }
}
