//! A flavor as people see it.

use holm_api::Flavor;

use super::{Record, field};
use crate::output::table;
use crate::output::text::{self, Now};

impl Record for Flavor {
    const COLUMNS: &'static [&'static str] = &["NAME", "VCPUS", "MEMORY", "DISK", "AGE"];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn row(&self, now: Now) -> Vec<String> {
        vec![
            self.name.clone(),
            self.vcpus.to_string(),
            text::bytes(self.memory_mib << 20),
            text::bytes(self.disk_gib << 30),
            now.age(&self.created_at),
        ]
    }

    fn detail(&self, now: Now) -> String {
        let specs: Vec<_> = self.extra_specs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        table::fields(&[
            field("Name", &self.name),
            field("Id", self.id),
            field("vCPUs", self.vcpus),
            field("Memory", format!("{} MiB", self.memory_mib)),
            field("Disk", format!("{} GiB", self.disk_gib)),
            field("Extra specs", specs.join("\n")),
            field("Created", format!("{} ago ({})", now.age(&self.created_at), self.created_at)),
            field("Revision", self.revision),
        ])
    }
}
