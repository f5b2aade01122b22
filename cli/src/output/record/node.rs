//! A node as people see it: whether it is heard from and takes new VMs, and how full it is.

use holm_api::{Inventory, Node};

use super::{Record, field, hypervisor, hypervisor_in_full, optional, overrides, pairs, simulated};
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
        let taints: Vec<_> = self.taints.iter().map(ToString::to_string).collect();
        let mut text = table::fields(&[
            field("Name", &self.name),
            field("Id", self.id),
            field("Status", status(self)),
            field(if self.up { "Up since" } else { "Down since" }, since),
            optional("Cordoned for", self.disabled_reason.as_ref()),
            field("Conditions", conditions.join("\n")),
            field("Role", self.role),
            field("VMs", self.vms),
            field("Zone", &self.availability_zone),
            field("Aggregates", self.aggregates.join(", ")),
            field("Labels", pairs(&self.labels)),
            field("Taints", taints.join("\n")),
            field("Overrides", overrides(&self.inventory_overrides)),
            field("Given traits", self.traits.join(", ")),
            field("Traits", self.reported_traits.join(", ")),
            field("Capabilities", pairs(&self.capabilities)),
            optional("Load per CPU", self.load),
            optional("Failed builds", Some(self.failed_builds).filter(|failed| *failed > 0)),
            optional("Hypervisor", self.hypervisor.as_ref().map(hypervisor_in_full)),
            optional("Version", self.version.as_ref()),
            field("API", &self.api_addr),
            field("Peer", &self.peer_addr),
            field("Created", format!("{} ago ({})", now.age(&self.created_at), self.created_at)),
            field("Revision", self.revision),
        ]);
        if !self.inventory.is_empty() {
            let mut inventory =
                Table::new(&["CLASS", "USED", "CAPACITY", "TOTAL", "RESERVED", "RATIO", "A VM"]);
            for (class, of) in &self.inventory {
                let numbers = [of.used, of.capacity, of.total, of.reserved].map(|number| number.to_string());
                let mut row = vec![with_unit(class)];
                row.extend(numbers);
                row.push(of.allocation_ratio.to_string());
                row.push(claim(of));
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

/// `UP`, `DOWN`, `UP (cordoned)`, `UP (tainted)`.
fn status(node: &Node) -> String {
    let up = if node.up { "UP" } else { "DOWN" };
    match (node.enabled, node.taints.is_empty()) {
        (true, true) => up.into(),
        (true, false) => format!("{up} (tainted)"),
        (false, true) => format!("{up} (cordoned)"),
        (false, false) => format!("{up} (cordoned, tainted)"),
    }
}

/// What one VM may have of it, where that is bounded: `2 to 8 in steps of 2`.
fn claim(of: &Inventory) -> String {
    let most = of.max_unit.map(|most| format!(" to {most}"));
    let step = Some(of.step_size).filter(|step| *step != 1).map(|step| format!(" in steps of {step}"));
    match (of.min_unit, &most, &step) {
        (1, None, None) => String::new(),
        (least, ..) => {
            format!("{least}{}{}", most.unwrap_or_else(|| " or more".into()), step.unwrap_or_default())
        }
    }
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
