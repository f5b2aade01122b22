//! An aggregate as people see it.

use holm_api::{Aggregate, NodeRef};

use super::{Record, field, optional, overrides, pairs};
use crate::output::table;
use crate::output::text::Now;

impl Record for Aggregate {
    const COLUMNS: &'static [&'static str] = &["NAME", "ZONE", "NODES", "METADATA", "AGE"];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn row(&self, now: Now) -> Vec<String> {
        vec![
            self.name.clone(),
            self.availability_zone.clone().unwrap_or_default(),
            nodes(&self.nodes),
            pairs(&self.metadata).replace('\n', ","),
            now.age(&self.created_at),
        ]
    }

    fn detail(&self, now: Now) -> String {
        table::fields(&[
            field("Name", &self.name),
            field("Id", self.id),
            optional("Zone", self.availability_zone.as_ref()),
            field("Nodes", nodes(&self.nodes)),
            field("Metadata", pairs(&self.metadata)),
            field("Inventory", overrides(&self.inventory)),
            field("Created", format!("{} ago ({})", now.age(&self.created_at), self.created_at)),
            field("Revision", self.revision),
        ])
    }
}

/// `n1,n2`.
pub fn nodes(nodes: &[NodeRef]) -> String {
    nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(",")
}
