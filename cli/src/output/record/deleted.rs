//! The answer to a delete.

use holm_api::Deleted;

use super::{Record, field};
use crate::output::table;
use crate::output::text::Now;

impl Record for Deleted {
    const COLUMNS: &'static [&'static str] = &["NAME", "ID", "REVISION"];

    fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.id.clone())
    }

    fn row(&self, _now: Now) -> Vec<String> {
        vec![self.name(), self.id.clone(), self.revision.to_string()]
    }

    fn detail(&self, _now: Now) -> String {
        table::fields(&[
            field("Deleted", self.name()),
            field("Id", &self.id),
            field("Revision", self.revision),
        ])
    }
}
