//! An availability zone as people see it.

use holm_api::AvailabilityZone;

use super::aggregate::nodes;
use super::{Record, field};
use crate::output::table;
use crate::output::text::Now;

impl Record for AvailabilityZone {
    const COLUMNS: &'static [&'static str] = &["NAME", "AVAILABLE", "NODES", "VMS"];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        vec![self.name.clone(), available(self).into(), nodes(&self.nodes), self.vms.to_string()]
    }

    fn detail(&self, _now: Now) -> String {
        table::fields(&[
            field("Name", &self.name),
            field("Available", available(self)),
            field("Nodes", nodes(&self.nodes)),
            field("Aggregates", self.aggregates.join(", ")),
            field("VMs", self.vms),
        ])
    }
}

fn available(zone: &AvailabilityZone) -> &'static str {
    if zone.available { "yes" } else { "no" }
}
