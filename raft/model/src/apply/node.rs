//! Nodes: joining, reporting, up and down, cordon, leaving.

use std::collections::{BTreeMap, BTreeSet};

use super::aggregate::change;
use super::{Cx, check_expected, invalid, not_found, some_names, wrong_state};
use crate::command::{AddNode, RemoveNode, ReportNode, SetNodeEnabled, SetNodeUp, UpdateNode};
use crate::condition;
use crate::id::{NodeId, Revision};
use crate::limits;
use crate::node::{Node, PAST_BOOTS};
use crate::planted::{Plant, planted};
use crate::reply::{Kind, Outcome, Reason};
use crate::resources::Resources;
use crate::scheduling::Taint;
use crate::vm::{Fault, Vm, VmStatus};

/// Longest `host:port`.
const ADDRESS_MAX: usize = 261;
/// Most conditions and most resource classes in a report.
const REPORT_PARTS_MAX: usize = 64;

impl Cx<'_> {
    pub(super) fn add_node(&mut self, c: &AddNode) -> Result<Outcome, Reason> {
        limits::name("name", &c.name)?;
        check_address("peer_addr", &c.peer_addr)?;
        check_address("api_addr", &c.api_addr)?;
        if self.state.find_node(&c.name).is_some() {
            return Err(Reason::NameTaken { kind: Kind::Node, name: c.name.clone() });
        }
        for other in self.state.nodes.values() {
            for (field, ours, theirs) in
                [("peer_addr", &c.peer_addr, &other.peer_addr), ("api_addr", &c.api_addr, &other.api_addr)]
            {
                if ours == theirs {
                    return Err(invalid(field, format!("is {ours}, the address of node `{}`", other.name)));
                }
            }
        }
        if self.state.nodes.len() >= limits::NODES_MAX {
            return Err(Reason::Limit { message: format!("at most {} nodes", limits::NODES_MAX) });
        }
        let id = NodeId(self.state.last_node_id.0 + 1);
        self.state.last_node_id = id;
        self.state.nodes.insert(
            id,
            Node {
                id,
                name: c.name.clone(),
                peer_addr: c.peer_addr.clone(),
                api_addr: c.api_addr.clone(),
                enabled: true,
                disabled_reason: None,
                up: false,
                up_changed_at: self.at,
                report: None,
                report_sequence: 0,
                past_boots: Vec::new(),
                boot_revision: Revision::default(),
                allocated: Resources::default(),
                room: Default::default(),
                inventory: BTreeMap::new(),
                inventory_overrides: BTreeMap::new(),
                labels: BTreeMap::new(),
                taints: BTreeSet::new(),
                traits: BTreeSet::new(),
                failed_builds: 0,
                fence: None,
                fenced_at: None,
                drain: None,
                maintenance: None,
                findings: BTreeMap::new(),
                cloned_at: None,
                created_at: self.at,
                revision: self.revision,
            },
        );
        self.event(Kind::Node, id, &c.name, "added", "");
        Ok(Outcome::Node(id))
    }

    pub(super) fn report_node(&mut self, c: &ReportNode) -> Result<Outcome, Reason> {
        check_address("peer_addr", &c.peer_addr)?;
        check_address("api_addr", &c.api_addr)?;
        if c.report.conditions.len() > REPORT_PARTS_MAX || c.report.inventory.len() > REPORT_PARTS_MAX {
            return Err(invalid("report", format!("has more than {REPORT_PARTS_MAX} parts")));
        }
        let mut node = self.state.nodes.get(&c.node).cloned().ok_or_else(|| not_found(Kind::Node, c.node))?;
        let other_boot = node.report.as_ref().is_some_and(|before| before.boot_id != c.report.boot_id);
        if other_boot && self.seen < node.boot_revision {
            // Under way since before the current boot: it says nothing of now.
            return Err(Reason::StaleReport);
        }
        if node.past_boots.contains(&c.report.boot_id) {
            return Ok(self.other_host(node));
        }
        match &node.report {
            Some(before) if before.boot_id == c.report.boot_id && c.sequence <= node.report_sequence => {
                return Err(Reason::StaleReport);
            }
            Some(before) if before.boot_id != c.report.boot_id => {
                node.past_boots.push(before.boot_id);
                if node.past_boots.len() > PAST_BOOTS {
                    node.past_boots.remove(0);
                }
                node.boot_revision = self.revision;
                self.event(Kind::Node, c.node, &node.name, "rebooted", "");
            }
            _ => {}
        }
        let mut report = c.report.clone();
        report.clip();
        node.peer_addr.clone_from(&c.peer_addr);
        node.api_addr.clone_from(&c.api_addr);
        node.report_sequence = c.sequence;
        node.report = Some(report);
        node.identity_clear(self.at);
        node.revision = self.revision;
        self.event(Kind::Node, c.node, &node.name, "reported", "");
        self.state.nodes.insert(c.node, node);
        self.refresh_inventory(c.node);
        Ok(Outcome::Node(c.node))
    }

    /// A host whose boot is over, by the word of another that reported since, says that it is not: one of them has
    /// the other's identity.
    fn other_host(&mut self, mut node: Node) -> Outcome {
        if !node.findings.contains_key(condition::IDENTITY_CLONED) {
            self.event(Kind::Node, node.id, &node.name, "identity-cloned", "two hosts report as this node");
        }
        node.identity_cloned(self.at);
        node.revision = self.revision;
        let id = node.id;
        self.state.nodes.insert(id, node);
        Outcome::OtherHost(id)
    }

    pub(super) fn update_node(&mut self, c: &UpdateNode) -> Result<Outcome, Reason> {
        let mut node = self.state.nodes.get(&c.node).cloned().ok_or_else(|| not_found(Kind::Node, c.node))?;
        check_expected(c.expected, node.revision)?;
        change(&mut node.labels, &c.labels);
        limits::map("labels", &node.labels)?;
        self.check_labels_in_use(c.node, &node.labels)?;
        if let Some(taints) = &c.taints {
            limits::count("taints", taints.len())?;
            for taint in taints {
                limits::key("taints", &taint.key)?;
                limits::text("taints", &taint.value, limits::KEY_BYTES_MAX)?;
            }
            if self.knows(2) {
                check_one_taint_each(taints)?;
            }
            node.taints.clone_from(taints);
        }
        if let Some(traits) = &c.traits {
            limits::count("traits", traits.len())?;
            traits.iter().try_for_each(|name| limits::key("traits", name))?;
            if self.knows(2) {
                traits.iter().try_for_each(|name| limits::trait_name("traits", name))?;
            }
            node.traits.clone_from(traits);
        }
        self.change_overrides(&mut node.inventory_overrides, &c.inventory)?;
        self.check_is_there(&node, &c.inventory)?;
        limits::count("inventory", node.inventory_overrides.len())?;
        node.revision = self.revision;
        self.event(Kind::Node, c.node, &node.name, "changed", "");
        self.state.nodes.insert(c.node, node);
        self.refresh_inventory(c.node);
        Ok(Outcome::Node(c.node))
    }

    /// A label stays while a VM is on the node that selected it by that.
    fn check_labels_in_use(&self, node: NodeId, after: &BTreeMap<String, String>) -> Result<(), Reason> {
        let before = &self.state.nodes[&node].labels;
        if !self.knows(2) || before == after {
            return Ok(());
        }
        let lost = |vm: &Vm| {
            let mut selector = vm.spec.scheduling.node_selector.iter();
            let lost = selector.find(|wanted| wanted.holds(before) && !wanted.holds(after));
            lost.map(|wanted| wanted.key.clone())
        };
        let Some(key) = self.state.vms_on(node).find_map(lost) else { return Ok(()) };
        let users = self.state.vms_on(node).filter(|vm| lost(vm).as_ref() == Some(&key));
        let by = some_names(users.map(|vm| vm.name.as_str()));
        Err(Reason::InUse { kind: Kind::Label, name: key, by })
    }

    pub(super) fn set_node_up(&mut self, c: &SetNodeUp) -> Result<Outcome, Reason> {
        self.check_leadership(c.leadership)?;
        let mut node = self.state.nodes.get(&c.node).cloned().ok_or_else(|| not_found(Kind::Node, c.node))?;
        if c.up && node.report.is_none() {
            return Err(wrong_state(format!("node `{}` has not reported yet", node.name)));
        }
        if node.up != c.up {
            node.up = c.up;
            node.up_changed_at = self.at;
            node.revision = self.revision;
            self.event(Kind::Node, c.node, &node.name, if c.up { "up" } else { "down" }, "");
            self.state.nodes.insert(c.node, node);
            if !c.up && planted(Plant::DownIsFenced) {
                self.take_from_down(c.node);
            }
        }
        Ok(Outcome::Node(c.node))
    }

    pub(super) fn set_node_enabled(&mut self, c: &SetNodeEnabled) -> Result<Outcome, Reason> {
        let mut node = self.state.nodes.get(&c.node).cloned().ok_or_else(|| not_found(Kind::Node, c.node))?;
        check_expected(c.expected, node.revision)?;
        if let Some(reason) = &c.reason {
            limits::text("reason", reason, limits::MESSAGE_MAX)?;
            if c.enabled {
                return Err(invalid("reason", "goes with `enabled: false` only"));
            }
        }
        if c.enabled && node.maintenance.is_some() {
            return Err(wrong_state(format!("node `{}` is in maintenance: end that", node.name)));
        }
        node.enabled = c.enabled;
        node.disabled_reason.clone_from(&c.reason);
        node.revision = self.revision;
        let what = if c.enabled { "uncordoned" } else { "cordoned" };
        self.event(Kind::Node, c.node, &node.name, what, c.reason.clone().unwrap_or_default());
        self.state.nodes.insert(c.node, node);
        if c.enabled {
            self.open_again(c.node);
        }
        Ok(Outcome::Node(c.node))
    }

    pub(super) fn remove_node(&mut self, c: &RemoveNode) -> Result<Outcome, Reason> {
        let node = self.state.nodes.get(&c.node).cloned().ok_or_else(|| not_found(Kind::Node, c.node))?;
        if self.state.nodes.len() == 1 {
            return Err(wrong_state("the last node cannot be removed"));
        }
        if !self.state.nodes.values().any(|other| other.id != c.node && other.up) {
            return Err(wrong_state("no other node is up; one that is must stay"));
        }
        if self.knows(1) && self.state.scheduler.isolates_node(c.node, &node.name) {
            let by = vec!["the scheduler's policy (isolated nodes)".to_owned()];
            return Err(Reason::InUse { kind: Kind::Node, name: node.name, by });
        }
        let by = some_names(self.state.vms_on(c.node).map(|vm| vm.name.as_str()));
        if !by.is_empty() && !c.confirm_node_off {
            return Err(Reason::InUse { kind: Kind::Node, name: node.name, by });
        }
        if !by.is_empty() && node.up {
            return Err(wrong_state(format!(
                "node `{}` is up and holds VMs; delete them, or switch it off first",
                node.name
            )));
        }
        let held: Vec<_> = self.state.vms_on(c.node).map(|vm| vm.id).collect();
        for id in held {
            self.lose_vm(id, &node);
        }
        let images: Vec<_> =
            self.state.images.values().filter(|image| image.holders.contains(&c.node)).cloned().collect();
        for mut image in images {
            image.holders.remove(&c.node);
            image.revision = self.revision;
            self.state.images.insert(image.id, image);
        }
        let aggregates: Vec<_> = self
            .state
            .aggregates
            .values()
            .filter(|aggregate| aggregate.nodes.contains(&c.node))
            .cloned()
            .collect();
        for mut aggregate in aggregates {
            aggregate.nodes.remove(&c.node);
            aggregate.revision = self.revision;
            self.state.aggregates.insert(aggregate.id, aggregate);
        }
        self.state.nodes.remove(&c.node);
        self.event(Kind::Node, c.node, &node.name, "removed", "");
        Ok(Outcome::Node(c.node))
    }

    /// The operator stated that `node` is off for good: the VM's claim ends, and its disks are lost.
    fn lose_vm(&mut self, id: crate::id::VmId, node: &Node) {
        let mut vm = self.state.vms.get(&id).cloned().expect("vms_by_node names VMs that exist");
        self.end_claim(&mut vm);
        if vm.status == VmStatus::Deleting {
            self.forget_vm(&vm);
            return;
        }
        vm.status = VmStatus::Error;
        vm.task_state = None;
        vm.fault = Some(Fault {
            message: format!("its node `{}` was removed while it was there; its disks are lost", node.name),
            node: Some(node.id),
            at: self.at,
        });
        self.event(Kind::Vm, id, &vm.name.clone(), "error", "its node was removed");
        self.put_vm(vm);
    }
}

/// A node has one taint of a key and an effect.
fn check_one_taint_each(taints: &BTreeSet<Taint>) -> Result<(), Reason> {
    let mut seen = BTreeSet::new();
    match taints.iter().find(|taint| !seen.insert((&taint.key, taint.effect))) {
        Some(twice) => Err(invalid("taints", format!("has `{}` twice with one effect", twice.key))),
        None => Ok(()),
    }
}

fn check_address(field: &str, address: &str) -> Result<(), Reason> {
    limits::text(field, address, ADDRESS_MAX)?;
    match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0) => Ok(()),
        _ => Err(invalid(field, format!("is {address:?}, must be HOST:PORT"))),
    }
}
