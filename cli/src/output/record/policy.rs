//! Leases, fencing and announced network work as people see them, with what they mean.

use std::time::Duration;

use holm_api::{Bounded, ClusterPolicy, Freeze};

use super::{Record, field, optional};
use crate::output::table::{self, Table};
use crate::output::text::{self, Now};

impl Record for ClusterPolicy {
    const COLUMNS: &'static [&'static str] =
        &["LEASE TTL", "MARGIN", "AUTOSTART WAIT", "FENCED AFTER", "REVISION"];

    fn name(&self) -> String {
        "policy".into()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        vec![
            span(self.lease_ttl_ms.value),
            span(self.margin_ms.value),
            span(self.autostart_wait_ms.value),
            span(self.fence_after_ms),
            self.revision.to_string(),
        ]
    }

    fn detail(&self, _now: Now) -> String {
        let mut numbers = Table::new(&["SETTING", "VALUE", "MAY BE", "MEANS"]);
        let mut row = |name: &str, of: &Bounded, means: &str| {
            let may_be = format!("{} to {}", span(of.least), span(of.most));
            numbers.row(vec![name.into(), span(of.value), may_be, means.into()]);
        };
        row("lease-ttl", &self.lease_ttl_ms, "a node without contact stops its failover VMs after this long");
        row("margin", &self.margin_ms, "waited beyond that before they start elsewhere");
        let autostart = "a node that booted waits this long for the cluster before it starts its pinned VMs";
        row("autostart-wait", &self.autostart_wait_ms, autostart);
        let fencing = match self.failover_possible {
            true => {
                format!("after {} of silence, at most {} per ttl", span(self.fence_after_ms), nodes(self))
            }
            false => "not possible: it takes three nodes".into(),
        };
        let fields = table::fields(&[field("Fencing", fencing), field("Revision", self.revision)]);
        format!("{}\n{fields}", numbers.render())
    }
}

fn nodes(policy: &ClusterPolicy) -> String {
    text::count(usize::try_from(policy.fences_at_once).unwrap_or(usize::MAX), "node")
}

/// Exactly, where that is short: `8.4s`, `15s`, `10m`.
fn span(ms: u64) -> String {
    match ms % 1000 {
        0 => text::span(Duration::from_millis(ms)),
        _ => format!("{}s", ms as f64 / 1000.0),
    }
}

impl Record for Freeze {
    const COLUMNS: &'static [&'static str] = &["STATE", "UNTIL", "REASON"];

    fn name(&self) -> String {
        "freeze".into()
    }

    fn row(&self, now: Now) -> Vec<String> {
        vec![freeze_state(self, now), self.until.to_string(), self.reason.clone().unwrap_or_default()]
    }

    fn detail(&self, now: Now) -> String {
        table::fields(&[
            field("Freeze", freeze_state(self, now)),
            optional("Reason", self.reason.as_ref()),
            field("Since", format!("{} ago ({})", now.age(&self.since), self.since)),
            field("Until", &self.until),
            field("Revision", self.revision),
        ])
    }
}

/// How long, and what it does and costs.
pub fn freeze_state(freeze: &Freeze, now: Now) -> String {
    let left_ms = text::unix_ms(&freeze.until).map_or(0, |until| until - now.0);
    let left = u64::try_from(left_ms).map(|ms| text::span(Duration::from_millis(ms)));
    match (freeze.over, left) {
        (false, Ok(left)) => format!(
            "in force for {left} more: failover VMs run on without contact, and no node is fenced, so those of a \
             machine that dies meanwhile wait"
        ),
        (true, Ok(left)) => {
            format!(
                "called off; no node is fenced before the leases given meanwhile have ended, {left} at most"
            )
        }
        (_, Err(_)) => "over; no node is fenced before the last leases given meanwhile have ended".into(),
    }
}
