//! A project as people see it: what it is for, and how much belongs to it.

use holm_api::Project;

use super::{Record, field, optional};
use crate::output::table;
use crate::output::text::Now;

impl Record for Project {
    const COLUMNS: &'static [&'static str] =
        &["NAME", "VMS", "GROUPS", "IMAGES", "VOLUMES", "DESCRIPTION", "AGE"];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn row(&self, now: Now) -> Vec<String> {
        vec![
            self.name.clone(),
            self.vms.to_string(),
            self.server_groups.to_string(),
            self.images.to_string(),
            self.volumes.to_string(),
            self.description.clone(),
            now.age(&self.created_at),
        ]
    }

    fn detail(&self, now: Now) -> String {
        table::fields(&[
            field("Name", &self.name),
            field("Id", self.id),
            optional("Description", Some(&self.description).filter(|text| !text.is_empty())),
            field("VMs", self.vms),
            field("Server groups", self.server_groups),
            field("Images", self.images),
            field("Volumes", self.volumes),
            field("Created", format!("{} ago ({})", now.age(&self.created_at), self.created_at)),
            field("Revision", self.revision),
        ])
    }
}
