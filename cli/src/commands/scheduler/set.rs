//! `holm scheduler set`: the policy as it is, with what was typed put in, sent back as a whole.

use holm_api::{NPlusOne, SchedulerPolicy, SetSchedulerPolicy};
use hyper::Method;

use crate::args::scheduler::{NPlusOne as Typed, Set, Switch};
use crate::args::value::once;
use crate::commands::Context;
use crate::error::Error;
use crate::output;

pub async fn run(cx: &Context, typed: &Set) -> Result<(), Error> {
    let revision = |policy: &SchedulerPolicy| policy.revision;
    let look = "holm scheduler show";
    let change = |policy: &SchedulerPolicy| changed(policy, typed);
    let policy: SchedulerPolicy =
        cx.client.amend(Method::PUT, "/v1/scheduler", look, revision, change).await?;
    output::warn(&policy.warnings);
    cx.output.done(&policy, "the scheduler's policy is changed; it holds from the next decision on")
}

fn changed(policy: &SchedulerPolicy, typed: &Set) -> Result<SetSchedulerPolicy, Error> {
    once(typed.enable.iter().chain(&typed.disable).map(|name| (name.clone(), ())))?;
    let mut filters = typed.filters.clone().unwrap_or_else(|| policy.filters.clone());
    if let Some(name) = typed.enable.iter().find(|name| policy.always_filters.contains(name)) {
        let hint = "it is asked after the filters in use, and needs no switching on";
        return Err(Error::usage(format!("the filter `{name}` is always asked"), hint));
    }
    for name in &typed.disable {
        if policy.required_filters.contains(name) {
            let hint = format!("these cannot: {}", policy.required_filters.join(", "));
            return Err(Error::usage(format!("the filter `{name}` cannot be switched off"), hint));
        }
        if !policy.known_filters.contains_key(name) {
            // The cluster's to refuse, as if it were to be asked.
            filters.push(name.clone());
            continue;
        }
        if !filters.contains(name) {
            let hint = format!("in use are {}", filters.join(", "));
            return Err(Error::usage(format!("the filter `{name}` is not in use"), hint));
        }
        filters.retain(|filter| filter != name);
    }
    filters.extend(typed.enable.iter().filter(|name| !policy.filters.contains(name)).cloned());
    let mut weighers = policy.weighers.clone();
    for (name, multiplier) in once(typed.weighers.iter().cloned())? {
        // A weigher of no weight is left out; an unknown one is the cluster's to refuse.
        if multiplier == 0.0 && policy.known_weighers.contains_key(&name) {
            weighers.remove(&name);
        } else {
            weighers.insert(name, multiplier);
        }
    }
    let list = |typed: &Option<Vec<String>>, now: &Vec<String>| -> Result<_, Error> {
        once(typed.iter().flatten().map(|name| (name.clone(), ())))?;
        let list = typed.as_ref().unwrap_or(now);
        Ok(Some(list.iter().filter(|name| !name.is_empty()).cloned().collect()))
    };
    Ok(SetSchedulerPolicy {
        filters: Some(filters),
        weighers: Some(weighers),
        max_instances_per_host: Some(typed.max_instances_per_host.unwrap_or(policy.max_instances_per_host)),
        max_io_ops_per_host: Some(typed.max_io_ops_per_host.unwrap_or(policy.max_io_ops_per_host)),
        isolated_images: list(&typed.isolated_images, &policy.isolated_images)?,
        isolated_nodes: list(&typed.isolated_nodes, &policy.isolated_nodes)?,
        restrict_isolated_hosts_to_isolated_images: Some(
            typed
                .restrict_isolated_hosts_to_isolated_images
                .map_or(policy.restrict_isolated_hosts_to_isolated_images, |typed| typed == Switch::On),
        ),
        reserve_after_s: Some(typed.reserve_after_s.unwrap_or(policy.reserve_after_s)),
        build_timeout_s: Some(typed.build_timeout.unwrap_or(policy.build_timeout_s)),
        n_plus_one: Some(typed.n_plus_one.map_or(policy.n_plus_one, |typed| match typed {
            Typed::Off => NPlusOne::Off,
            Typed::Warn => NPlusOne::Warn,
            Typed::Refuse => NPlusOne::Refuse,
        })),
        preemption: Some(typed.preemption.map_or(policy.preemption, |typed| typed == Switch::On)),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Noun, scheduler};
    use crate::output::record::fixtures;

    fn set(args: &[&str]) -> Result<SetSchedulerPolicy, Error> {
        let words = ["holm", "scheduler", "set"].into_iter().chain(args.iter().copied());
        let Noun::Scheduler(scheduler::Verb::Set(typed)) = Cli::try_parse_from(words).unwrap().noun else {
            panic!("another command")
        };
        changed(&fixtures::policy(), &typed)
    }

    #[test]
    fn what_is_not_named_stays() {
        let changed =
            set(&["--weigher", "Ram=-1.5", "--weigher", "Cpu=0", "--enable", "NumInstances"]).unwrap();
        assert_eq!(changed.filters.unwrap(), ["ComputeStatus", "Taints", "Capacity", "NumInstances"]);
        assert_eq!(changed.weighers.unwrap(), [("Ram".to_owned(), -1.5)].into());
        assert_eq!(changed.max_instances_per_host, Some(50));
        assert_eq!(changed.restrict_isolated_hosts_to_isolated_images, Some(true));
        let changed = set(&["--restrict-isolated-hosts-to-isolated-images", "off"]).unwrap();
        assert_eq!(changed.restrict_isolated_hosts_to_isolated_images, Some(false));
        assert_eq!(changed.build_timeout_s, Some(600));
        assert_eq!(set(&["--build-timeout", "3600"]).unwrap().build_timeout_s, Some(3600));
    }

    #[test]
    fn a_filter_that_is_not_in_use_cannot_be_disabled() {
        assert_eq!(set(&["--disable", "Taints"]).unwrap().filters.unwrap(), ["ComputeStatus", "Capacity"]);
        assert_eq!(set(&["--disable", "NumInstances"]).unwrap_err().exit_code(), 2);
        let unknown = set(&["--disable", "Horoscope"]).unwrap().filters.unwrap();
        assert_eq!(unknown.last().map(String::as_str), Some("Horoscope"), "the cluster refuses it");
    }

    #[test]
    fn what_is_given_twice_is_refused_by_its_name() {
        for (args, named) in [
            (["--weigher", "Ram=1", "--weigher", "Ram=2"], "Ram"),
            (["--enable", "Taints", "--disable", "Taints"], "Taints"),
            (["--enable", "IoOps", "--enable", "IoOps"], "IoOps"),
            (["--isolated-images", "img,img", "--reserve-after-s", "1"], "img"),
            (["--isolated-nodes", "n1,n1", "--reserve-after-s", "1"], "n1"),
        ] {
            assert_eq!(
                set(&args).unwrap_err().to_string(),
                format!("`{named}` is given twice: give it once")
            );
        }
    }

    #[test]
    fn what_is_always_asked_is_neither_enabled_nor_disabled() {
        let refused = |args: &[&str]| set(args).unwrap_err().to_string();
        assert!(refused(&["--disable", "PciDevices"]).contains("`PciDevices` cannot be switched off"));
        assert!(refused(&["--disable", "Capacity"]).contains("`Capacity` cannot be switched off"));
        assert!(refused(&["--enable", "PciDevices"]).contains("`PciDevices` is always asked"));
    }
}
