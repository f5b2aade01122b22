//! The scheduler's policy and quotas.

use super::{Cx, check_expected, invalid};
use crate::command::{SetQuota, SetSchedulerPolicy};
use crate::id::{ImageId, NodeId};
use crate::limits;
use crate::planted::{Plant, planted};
use crate::policy::{BUILD_TIMEOUT_S_MAX, FILTERS, MULTIPLIER_MAX, REQUIRED, SchedulerPolicy, WEIGHERS};
use crate::quota::VMS;
use crate::reply::{Kind, Outcome, Reason};
use crate::resources::Resources;

impl Cx<'_> {
    pub(super) fn set_scheduler_policy(&mut self, c: &SetSchedulerPolicy) -> Result<Outcome, Reason> {
        check_expected(c.expected, self.state.scheduler.revision)?;
        let policy = c.policy.clone().unwrap_or_default();
        check_policy(&policy)?;
        if self.knows(1) {
            self.check_isolated(&policy)?;
        }
        self.state.scheduler = SchedulerPolicy { revision: self.revision, ..policy };
        let what = if c.policy.is_some() { "changed" } else { "reset" };
        self.event(Kind::Policy, "scheduler", "scheduler", what, "");
        Ok(Outcome::Nothing)
    }

    /// What is isolated by id must exist, or it would isolate nothing and nobody would know. What the policy of before
    /// has is left as it is: it may be of before this rule, and whoever changes something else has not written it.
    fn check_isolated(&self, policy: &SchedulerPolicy) -> Result<(), Reason> {
        let before = Some(&self.state.scheduler).filter(|_| self.knows(2));
        let is_new = |item: &&String, list: fn(&SchedulerPolicy) -> &Vec<String>| {
            before.is_none_or(|before| !list(before).contains(item))
        };
        for item in policy.isolated_images.iter().filter(|item| is_new(item, |of| &of.isolated_images)) {
            if item.parse().is_ok_and(|id: ImageId| !self.state.images.contains_key(&id)) {
                return Err(invalid("isolated_images", format!("there is no image `{item}`")));
            }
        }
        for item in policy.isolated_nodes.iter().filter(|item| is_new(item, |of| &of.isolated_nodes)) {
            if item.parse().is_ok_and(|id: NodeId| !self.state.nodes.contains_key(&id)) {
                return Err(invalid("isolated_nodes", format!("there is no node `{item}`")));
            }
        }
        Ok(())
    }

    pub(super) fn set_quota(&mut self, c: &SetQuota) -> Result<Outcome, Reason> {
        limits::name("project", &c.project)?;
        self.check_project(&c.project)?;
        limits::count("limits", c.limits.len())?;
        for class in c.limits.keys() {
            if class.name() != VMS {
                limits::resource_class("limits", class)?;
            }
        }
        let mut limits = self.state.quotas.get(&c.project).cloned().unwrap_or_default();
        super::aggregate::change(&mut limits.0, &c.limits);
        limits::count("limits", limits.0.len())?;
        if limits.0.is_empty() {
            self.state.quotas.remove(&c.project);
        } else {
            self.state.quotas.insert(c.project.clone(), limits);
        }
        self.event(Kind::Quota, &c.project, &c.project, "changed", "");
        Ok(Outcome::Nothing)
    }

    /// Whether the project may hold `more`.
    pub(super) fn check_quota(&self, more: &Resources) -> Result<(), Reason> {
        let project = &self.actor.project;
        let limits = self.state.quotas.get(project).filter(|_| !planted(Plant::QuotaAtLeader));
        let Some(limits) = limits else { return Ok(()) };
        let usage = self.state.usage.get(project);
        for (class, wanted) in &more.0 {
            let used = usage.map_or(0, |usage| usage.get(class));
            let Some(limit) = limits.0.get(class).copied() else { continue };
            if used.saturating_add(*wanted) > limit {
                let (project, class) = (project.clone(), class.to_string());
                return Err(Reason::Quota { project, class, wanted: *wanted, used, limit });
            }
        }
        Ok(())
    }

    pub(super) fn use_quota(&mut self, project: &str, more: &Resources) {
        let mut usage = self.state.usage.get(project).cloned().unwrap_or_default();
        usage.add(more);
        self.state.usage.insert(project.to_owned(), usage);
    }

    pub(super) fn free_quota(&mut self, project: &str, less: &Resources) {
        let mut usage = self.state.usage.get(project).cloned().unwrap_or_default();
        usage.sub(less);
        if usage.0.is_empty() {
            self.state.usage.remove(project);
        } else {
            self.state.usage.insert(project.to_owned(), usage);
        }
    }
}

fn check_policy(policy: &SchedulerPolicy) -> Result<(), Reason> {
    let mut seen = std::collections::BTreeSet::new();
    for name in &policy.filters {
        if !FILTERS.iter().any(|(known, _)| known == name) {
            let known: Vec<_> = FILTERS.iter().map(|(name, _)| *name).collect();
            return Err(invalid(
                "filters",
                format!("there is no filter {name:?}; there are {}", known.join(", ")),
            ));
        }
        if !seen.insert(name) {
            return Err(invalid("filters", format!("{name} is named twice")));
        }
    }
    if let Some(missing) = REQUIRED.iter().find(|name| !policy.filters.iter().any(|filter| filter == *name)) {
        return Err(invalid(
            "filters",
            format!("{missing} cannot be switched off: every placement is checked by it"),
        ));
    }
    for (name, multiplier) in &policy.weighers {
        if !WEIGHERS.iter().any(|(known, _)| known == name) {
            let known: Vec<_> = WEIGHERS.iter().map(|(name, _)| *name).collect();
            return Err(invalid(
                "weighers",
                format!("there is no weigher {name:?}; there are {}", known.join(", ")),
            ));
        }
        if multiplier.unsigned_abs() > MULTIPLIER_MAX.unsigned_abs() {
            let most = MULTIPLIER_MAX / 1000;
            return Err(invalid("weighers", format!("{name}: the multiplier must be within ±{most}")));
        }
    }
    for (field, list) in
        [("isolated_images", &policy.isolated_images), ("isolated_nodes", &policy.isolated_nodes)]
    {
        limits::count(field, list.len())?;
        list.iter().try_for_each(|name| limits::text(field, name, limits::KEY_BYTES_MAX))?;
    }
    let most = policy.build_timeout_s;
    if !(1..=BUILD_TIMEOUT_S_MAX).contains(&most) {
        let message = format!("is {most}, must be 1 to {BUILD_TIMEOUT_S_MAX} seconds");
        return Err(invalid("build_timeout_s", message));
    }
    if policy.reserve_after_s > most {
        let message = format!(
            "is {}, must be at most {most}, the build_timeout_s, after which a VM waits no longer; 0 keeps no host",
            policy.reserve_after_s
        );
        return Err(invalid("reserve_after_s", message));
    }
    for (field, number) in [
        ("max_instances_per_host", policy.max_instances_per_host),
        ("max_io_ops_per_host", policy.max_io_ops_per_host),
    ] {
        if number == 0 {
            return Err(invalid(field, "must be at least 1"));
        }
    }
    Ok(())
}
