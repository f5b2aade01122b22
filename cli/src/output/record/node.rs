//! A node as people see it: whether it is heard from and takes new VMs, and how full it is.

use std::collections::BTreeMap;

use holm_api::{DrainPinned, Fence, Inventory, Maintenance, Node, NodeDrain, Orphan, PciDevice};

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
            optional("Fenced", self.fence.as_ref().map(|fence| fenced(fence, now))),
            optional("Drain", self.drain.as_ref().map(|drain| drained(drain, now))),
            optional("Maintenance", self.maintenance.as_ref().map(|work| maintenance(work, now))),
            field("Orphans", orphans(self)),
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
            field("Dedicated CPUs", dedicated(&self.dedicated_cpus)),
            field("PCI devices", devices(&self.pci_devices)),
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
        let trouble = records.iter().flat_map(|node| {
            let drain = node.drain.as_ref().map(|drain| format!("{}: drain: {}", node.name, left(drain)));
            let fence = node.fence.as_ref().map(|fence| format!("{}: fenced: {}", node.name, lost(fence)));
            fence.into_iter().chain(drain)
        });
        let conditions = records.iter().flat_map(|node| {
            node.conditions.iter().map(|(name, found)| format!("{}: {name}: {}", node.name, found.message))
        });
        let simulated = simulated(records.iter().map(|node| (Some(&*node.name), node.hypervisor.as_ref())));
        trouble.chain(conditions).chain(simulated).collect()
    }
}

/// `UP`, `DOWN (fenced)`, `UP (draining, tainted)`.
fn status(node: &Node) -> String {
    let up = if node.up { "UP" } else { "DOWN" };
    let closed = match () {
        () if node.maintenance.is_some() => Some("maintenance"),
        () if node.drain.as_ref().is_some_and(|drain| drain.done) => Some("drained"),
        () if node.drain.is_some() => Some("draining"),
        () if !node.enabled => Some("cordoned"),
        () => None,
    };
    let fenced = node.fence.as_ref().map(|_| "fenced");
    let tainted = (!node.taints.is_empty()).then_some("tainted");
    let notes: Vec<_> = [fenced, closed, tainted].into_iter().flatten().collect();
    if notes.is_empty() { up.into() } else { format!("{up} ({})", notes.join(", ")) }
}

fn fenced(fence: &Fence, now: Now) -> String {
    format!("{} ago; {}", now.age(&fence.since), lost(fence))
}

/// `it lost web and db`.
fn lost(fence: &Fence) -> String {
    let names: Vec<_> =
        fence.lost.iter().map(|vm| vm.name.clone().unwrap_or_else(|| vm.id.to_string())).collect();
    match names.is_empty() {
        true => "it had nothing to lose".into(),
        false => format!("it lost {}", names.join(", ")),
    }
}

fn drained(drain: &NodeDrain, now: Now) -> String {
    let pinned = match drain.pinned {
        DrainPinned::Stop => "pinned VMs are stopped",
        DrainPinned::Keep => "pinned VMs are kept",
    };
    format!("for {}; {pinned}\n{}", now.age(&drain.since), left(drain))
}

/// `left: 2 failover (a, b), 1 pinned (c)`.
fn left(drain: &NodeDrain) -> String {
    let some = |what: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("{} {what} ({})", names.len(), names.join(", ")))
    };
    let failover = some("failover", &drain.left_failover);
    let pinned = some("pinned", &drain.left_pinned);
    let left: Vec<_> = failover.into_iter().chain(pinned).collect();
    match (left.is_empty(), drain.done) {
        (true, _) => "done, nothing runs there".into(),
        (false, true) => format!("done, kept: {}", left.join(", ")),
        (false, false) => format!("left: {}", left.join(", ")),
    }
}

fn maintenance(work: &Maintenance, now: Now) -> String {
    let reason = work.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("for {}{reason}", now.age(&work.since))
}

fn orphans(node: &Node) -> String {
    let line = |orphan: &Orphan| format!("{}: {}", orphan.id, orphan.message);
    node.orphans.iter().map(line).collect::<Vec<_>>().join("\n")
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

/// The CPUs of a NUMA node a line: `4, 5 (NUMA node 0)`.
fn dedicated(cpus: &BTreeMap<u32, u32>) -> String {
    let mut nodes: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    cpus.iter().for_each(|(cpu, node)| nodes.entry(*node).or_default().push(cpu.to_string()));
    let lines = nodes.into_iter().map(|(node, cpus)| format!("{} (NUMA node {node})", cpus.join(", ")));
    lines.collect::<Vec<_>>().join("\n")
}

/// `0000:65:00.0 gpu (10de:1eb8), held by web`.
fn devices(devices: &BTreeMap<String, PciDevice>) -> String {
    let line = |(address, device): (&String, &PciDevice)| {
        let PciDevice { alias, vendor, product, vm, .. } = device;
        let held = vm.as_ref().map_or("free".to_owned(), |vm| format!("held by {vm}"));
        format!("{address} {alias} ({vendor}:{product}), {held}")
    };
    devices.iter().map(line).collect::<Vec<_>>().join("\n")
}
