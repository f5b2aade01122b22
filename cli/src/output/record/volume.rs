//! A shared volume as people see it: where it is, how it is guarded, and who has it.

use holm_api::Volume;

use super::{Record, field, project};
use crate::output::table;
use crate::output::text::Now;

impl Record for Volume {
    const COLUMNS: &'static [&'static str] = &["NAME", "PATH", "ACCESS", "LOCK", "VMS", "AGE"];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn row(&self, now: Now) -> Vec<String> {
        vec![
            self.name.clone(),
            self.path.clone(),
            access(self).to_owned(),
            self.lock.to_string(),
            self.vms.join(", "),
            now.age(&self.created_at),
        ]
    }

    fn detail(&self, now: Now) -> String {
        table::fields(&[
            field("Name", &self.name),
            field("Id", self.id),
            project(&self.project),
            field("Path", &self.path),
            field("Access", access(self)),
            field("Lock", self.lock),
            field("VMs", self.vms.join(", ")),
            field("Created", format!("{} ago ({})", now.age(&self.created_at), self.created_at)),
            field("Revision", self.revision),
        ])
    }
}

fn access(volume: &Volume) -> &'static str {
    if volume.read_only { "read-only" } else { "one writer" }
}
