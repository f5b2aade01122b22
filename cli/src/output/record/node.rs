//! A node as people see it: whether it is heard from and takes new VMs, and how full it is.

use holm_api::{Inventory, Node};

use super::{Record, field, hypervisor, hypervisor_in_full, optional, simulated};
use crate::output::table::{self, Table};
use crate::output::text::{self, Now};

impl Record for Node {
    const COLUMNS: &'static [&'static str] =
        &["NAME", "STATUS", "ROLE", "VMS", "VCPUS", "MEMORY", "DISK", "HYPERVISOR", "VERSION"];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        vec![
            self.name.clone(),
            status(self),
            self.role.to_string(),
            self.vms.to_string(),
            share(self, "VCPU"),
            share(self, "MEMORY_MB"),
            share(self, "DISK_GB"),
            hypervisor(self.hypervisor.as_ref()),
            self.version.clone().unwrap_or_default(),
        ]
    }

    fn detail(&self, now: Now) -> String {
        let since = format!("{} ago ({})", now.age(&self.up_changed_at), self.up_changed_at);
        let conditions: Vec<_> = self
            .conditions
            .iter()
            .map(|(name, found)| format!("{name}: {} ({} ago)", found.message, now.age(&found.since)))
            .collect();
        let mut text = table::fields(&[
            field("Name", &self.name),
            field("Id", self.id),
            field("Status", status(self)),
            field(if self.up { "Up since" } else { "Down since" }, since),
            optional("Cordoned for", self.disabled_reason.as_ref()),
            field("Conditions", conditions.join("\n")),
            field("Role", self.role),
            field("VMs", self.vms),
            optional("Hypervisor", self.hypervisor.as_ref().map(hypervisor_in_full)),
            optional("Version", self.version.as_ref()),
            field("API", &self.api_addr),
            field("Peer", &self.peer_addr),
            field("Created", format!("{} ago ({})", now.age(&self.created_at), self.created_at)),
            field("Revision", self.revision),
        ]);
        if !self.inventory.is_empty() {
            let mut inventory = Table::new(&["CLASS", "USED", "CAPACITY", "TOTAL", "RESERVED", "RATIO"]);
            for (class, of) in &self.inventory {
                let numbers = [of.used, of.capacity, of.total, of.reserved].map(|number| number.to_string());
                let mut row = vec![with_unit(class)];
                row.extend(numbers);
                row.push(of.allocation_ratio.to_string());
                inventory.row(row);
            }
            text += &format!("\n{}", inventory.render());
        }
        text
    }

    fn footer(records: &[Self]) -> Vec<String> {
        let conditions = records.iter().flat_map(|node| {
            node.conditions.iter().map(|(name, found)| format!("{}: {name}: {}", node.name, found.message))
        });
        let simulated = simulated(records.iter().map(|node| (Some(&*node.name), node.hypervisor.as_ref())));
        conditions.chain(simulated).collect()
    }
}

/// `UP`, `DOWN`, `UP (cordoned)`.
fn status(node: &Node) -> String {
    let up = if node.up { "UP" } else { "DOWN" };
    if node.enabled { up.into() } else { format!("{up} (cordoned)") }
}

/// A resource class, whose name is Nova's, with the unit it is counted in.
fn with_unit(class: &str) -> String {
    match class {
        "MEMORY_MB" => format!("{class} (MiB)"),
        "DISK_GB" => format!("{class} (GiB)"),
        _ => class.to_owned(),
    }
}

/// `used/capacity` of a resource class.
fn share(node: &Node, class: &str) -> String {
    let Some(Inventory { used, capacity, .. }) = node.inventory.get(class) else { return String::new() };
    let shift = match class {
        "MEMORY_MB" => 20,
        "DISK_GB" => 30,
        _ => return format!("{used}/{capacity}"),
    };
    format!("{}/{}", text::bytes(used << shift), text::bytes(capacity << shift))
}
