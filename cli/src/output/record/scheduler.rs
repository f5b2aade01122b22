//! The scheduler's policy as people see it: what is asked, in which order, what counts how much, and what
//! could be switched on.

use holm_api::{NPlusOne, SchedulerPolicy};

use super::{Record, field};
use crate::output::table::{self, Table};
use crate::output::text::Now;

impl Record for SchedulerPolicy {
    const COLUMNS: &'static [&'static str] = &["FILTERS", "WEIGHERS", "REVISION"];

    fn name(&self) -> String {
        "scheduler".into()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        let weighers: Vec<_> = self.weighers.iter().map(|(name, by)| format!("{name}={by}")).collect();
        vec![self.filters.join(","), weighers.join(","), self.revision.to_string()]
    }

    fn detail(&self, _now: Now) -> String {
        let mut filters = Table::new(&["FILTER", "STATE"]);
        for name in &self.filters {
            let required = self.required_filters.contains(name);
            let state = if required { "on, cannot be switched off" } else { "on" };
            filters.row(vec![name.clone(), state.into()]);
        }
        for name in &self.always_filters {
            filters.row(vec![name.clone(), "always asked".into()]);
        }
        for name in self.known_filters.keys().filter(|name| !self.filters.contains(name)) {
            filters.row(vec![name.clone(), "off".into()]);
        }
        let mut weighers = Table::new(&["WEIGHER", "MULTIPLIER", "DEFAULT"]);
        for (name, default) in &self.known_weighers {
            let multiplier = self.weighers.get(name).copied().unwrap_or_default();
            weighers.row(vec![name.clone(), shown(multiplier), shown(*default)]);
        }
        let numbers = table::fields(&[
            field("Max instances per host", self.max_instances_per_host),
            field("Max IO operations per host", self.max_io_ops_per_host),
            field("Isolated images", self.isolated_images.join(", ")),
            field("Isolated nodes", self.isolated_nodes.join(", ")),
            field(
                "Other images there",
                if self.restrict_isolated_hosts_to_isolated_images { "no" } else { "yes" },
            ),
            field("Host kept after", keeps(self.reserve_after_s)),
            field("Waits at most", format!("{} s", self.build_timeout_s)),
            field("N+1", n_plus_one(self.n_plus_one)),
            field("Warnings", self.warnings.join("\n")),
            field("Preemption", if self.preemption { "on" } else { "off" }),
            field("Revision", self.revision),
        ]);
        format!("{}\n{}\n{numbers}", filters.render(), weighers.render())
    }
}

fn keeps(after_s: u32) -> String {
    match after_s {
        0 => "never".into(),
        after_s => format!("{after_s} s of waiting"),
    }
}

fn n_plus_one(asked: NPlusOne) -> &'static str {
    match asked {
        NPlusOne::Off => "off",
        NPlusOne::Warn => "warn: failover VMs that break it are created with a warning",
        NPlusOne::Refuse => "refuse: VMs that break it, or take the room it needs, are not let in",
    }
}

fn shown(multiplier: f64) -> String {
    if multiplier == 0.0 { "off".into() } else { multiplier.to_string() }
}
