//! The cluster as people see it: its leader, and how its members keep up.

use std::time::Duration;

use holm_api::{Cluster, Member};

use super::policy::freeze_state;
use super::{Record, field, optional};
use crate::output::table::{self, Table};
use crate::output::text::{self, Now};

/// The leader marks a member DOWN well before.
const SILENT_MS: u64 = 15_000;

impl Record for Cluster {
    const COLUMNS: &'static [&'static str] = &["NAME", "LEADER", "MEMBERS", "REVISION", "AGE"];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn row(&self, now: Now) -> Vec<String> {
        vec![
            self.name.clone(),
            self.leader.as_ref().map(|leader| leader.name.clone()).unwrap_or_default(),
            self.members.len().to_string(),
            self.revision.to_string(),
            now.age(&self.created_at),
        ]
    }

    fn detail(&self, now: Now) -> String {
        let leader = match &self.leader {
            Some(leader) => format!("{} (term {})", leader.name, self.term),
            None => format!("none (term {})", self.term),
        };
        let log = format!("applied {} of {}", self.applied_index, self.last_log_index);
        let fields = table::fields(&[
            field("Cluster", &self.name),
            field("Id", self.id),
            field("Leader", leader),
            field("Revision", self.revision),
            field("Log", format!("{log}, snapshot at {} (on {})", self.snapshot_index, self.node.name)),
            field("Version", self.version),
            optional("Freeze", self.freeze.as_ref().map(|of| freeze_state(of, now))),
            field("Created", format!("{} ago ({})", now.age(&self.created_at), self.created_at)),
        ]);
        let mut members = Table::new(&["NODE", "ROLE", "STATUS", "HEARD", "LOG", "API"]);
        for member in &self.members {
            members.row(vec![
                member.name.clone(),
                member.role.to_string(),
                status(self, member),
                member.silent_ms.map(heard).unwrap_or_default(),
                lag(self, member),
                member.api_addr.clone(),
            ]);
        }
        format!("{fields}\n{}", members.render())
    }
}

/// UP and DOWN are the leader's word, and only a quorum lets it change: without a leader they are the last that
/// was known, and a member that is silent for long is not UP whatever was known.
fn status(cluster: &Cluster, member: &Member) -> String {
    let silent = member.silent_ms.is_some_and(|ms| ms > SILENT_MS);
    let known = if member.up { "UP" } else { "DOWN" };
    match () {
        () if member.up && silent => "SILENT".into(),
        () if cluster.leader.is_none() && member.id != cluster.node.id => format!("{known}?"),
        () => known.into(),
    }
}

fn heard(silent_ms: u64) -> String {
    format!("{} ago", text::short(Duration::from_millis(silent_ms)))
}

/// How far a member's log is behind, as far as the answering node knows.
fn lag(cluster: &Cluster, member: &Member) -> String {
    match member.matched_index.map(|matched| cluster.last_log_index.saturating_sub(matched)) {
        Some(0) if member.silent_ms.is_some_and(|ms| ms > SILENT_MS) => String::new(),
        Some(0) => "current".into(),
        Some(entries) => format!("{entries} behind"),
        None => String::new(),
    }
}
