//! A server group as people see it: its rule, and where its members are.

use holm_api::ServerGroup;

use super::{Record, field, optional, project};
use crate::output::table::{self, Table};
use crate::output::text::Now;

impl Record for ServerGroup {
    const COLUMNS: &'static [&'static str] = &["NAME", "POLICY", "MAX A HOST", "MEMBERS", "AGE"];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn row(&self, now: Now) -> Vec<String> {
        vec![
            self.name.clone(),
            self.policy.to_string(),
            self.max_server_per_host.map(|max| max.to_string()).unwrap_or_default(),
            self.members.len().to_string(),
            now.age(&self.created_at),
        ]
    }

    fn detail(&self, now: Now) -> String {
        let mut text = table::fields(&[
            field("Name", &self.name),
            field("Id", self.id),
            project(&self.project),
            field("Policy", self.policy),
            optional("Max a host", self.max_server_per_host),
            field("Members", self.members.len()),
            field("Created", format!("{} ago ({})", now.age(&self.created_at), self.created_at)),
            field("Revision", self.revision),
        ]);
        if !self.members.is_empty() {
            let mut members = Table::new(&["MEMBER", "NODE"]);
            for member in &self.members {
                members.row(vec![member.name.clone(), member.node.clone().unwrap_or_default()]);
            }
            text += &format!("\n{}", members.render());
        }
        text
    }
}
