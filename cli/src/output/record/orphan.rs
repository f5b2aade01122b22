//! A VM found on a node that the cluster never placed there.

use holm_api::Orphan;
use serde::Serialize;

use super::{Record, field};
use crate::output::table;
use crate::output::text::Now;

/// An orphan and where it is.
#[derive(Serialize)]
pub struct OrphanOn {
    pub node: String,
    #[serde(flatten)]
    pub orphan: Orphan,
}

impl Record for OrphanOn {
    const COLUMNS: &'static [&'static str] = &["NODE", "VM", "WHAT IS KNOWN"];

    fn name(&self) -> String {
        self.orphan.id.to_string()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        vec![self.node.clone(), self.orphan.id.to_string(), self.orphan.message.clone()]
    }

    fn detail(&self, _now: Now) -> String {
        table::fields(&[
            field("Node", &self.node),
            field("VM", self.orphan.id),
            field("What is known", &self.orphan.message),
        ])
    }
}
