//! Host aggregates, and what they change about their nodes.

use std::collections::BTreeMap;

use imbl::OrdSet;

use super::{Cx, check_expected, invalid, not_found, some_names};
use crate::aggregate::{Aggregate, DEFAULT_ZONE, ZONE_KEY};
use crate::command::{CreateAggregate, DeleteAggregate, UpdateAggregate};
use crate::id::NodeId;
use crate::limits;
use crate::policy;
use crate::reply::{Kind, Outcome, Reason};
use crate::vm::Vm;

impl Cx<'_> {
    pub(super) fn create_aggregate(&mut self, c: &CreateAggregate) -> Result<Outcome, Reason> {
        if self.state.aggregates.contains_key(&c.id) {
            return Err(invalid("id", "is taken"));
        }
        if self.state.aggregates.len() >= limits::CATALOG_MAX {
            return Err(Reason::Limit { message: format!("at most {} aggregates", limits::CATALOG_MAX) });
        }
        let aggregate = Aggregate {
            id: c.id,
            name: c.name.clone(),
            nodes: c.nodes.iter().copied().collect(),
            metadata: c.metadata.clone(),
            inventory: BTreeMap::new(),
            created_at: self.at,
            revision: self.revision,
        };
        self.check_aggregate(&aggregate)?;
        self.check_numbers(c.metadata.iter())?;
        self.check_zones_in_use(None, &aggregate)?;
        self.event(Kind::Aggregate, c.id, &c.name, "created", "");
        self.put_aggregate(None, aggregate);
        Ok(Outcome::Aggregate(c.id))
    }

    pub(super) fn update_aggregate(&mut self, c: &UpdateAggregate) -> Result<Outcome, Reason> {
        let before =
            self.state.aggregates.get(&c.id).cloned().ok_or_else(|| not_found(Kind::Aggregate, c.id))?;
        check_expected(c.expected, before.revision)?;
        let mut aggregate = before.clone();
        if let Some(name) = &c.name {
            aggregate.name.clone_from(name);
        }
        if let Some(node) = c.add_nodes.intersection(&c.remove_nodes).next().filter(|_| self.knows(2)) {
            let name = self.state.nodes.get(node).map_or("", |node| node.name.as_str());
            return Err(invalid("remove_nodes", format!("node `{name}` is in `add_nodes` too")));
        }
        aggregate.nodes.extend(c.add_nodes.iter().copied());
        for node in &c.remove_nodes {
            if aggregate.nodes.remove(node).is_none() {
                let name = self.state.nodes.get(node).map_or("", |node| node.name.as_str());
                return Err(invalid("remove_nodes", format!("node `{name}` is not in it")));
            }
        }
        self.check_numbers(c.metadata.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))))?;
        if aggregate.name != before.name && self.knows(1) {
            let stay = before.nodes.clone().intersection(aggregate.nodes.clone());
            self.check_aggregate_unused(&before.name, &stay)?;
        }
        change(&mut aggregate.metadata, &c.metadata);
        self.change_overrides(&mut aggregate.inventory, &c.inventory)?;
        aggregate.revision = self.revision;
        self.check_aggregate(&aggregate)?;
        self.check_zones_in_use(Some(&before), &aggregate)?;
        self.check_zone_goes(&before, aggregate.zone())?;
        self.event(Kind::Aggregate, c.id, &aggregate.name, "changed", "");
        self.put_aggregate(Some(before), aggregate);
        Ok(Outcome::Aggregate(c.id))
    }

    pub(super) fn delete_aggregate(&mut self, c: &DeleteAggregate) -> Result<Outcome, Reason> {
        let aggregate =
            self.state.aggregates.get(&c.id).cloned().ok_or_else(|| not_found(Kind::Aggregate, c.id))?;
        check_expected(c.expected, aggregate.revision)?;
        self.check_aggregate_unused(&aggregate.name, &aggregate.nodes)?;
        self.check_zone_goes(&aggregate, None)?;
        self.state.aggregates.remove(&c.id);
        self.event(Kind::Aggregate, c.id, &aggregate.name, "deleted", "");
        Ok(Outcome::Aggregate(c.id))
    }

    /// Metadata that overrides numbers of the policy.
    fn check_numbers<'m>(
        &self,
        metadata: impl Iterator<Item = (&'m String, &'m String)>,
    ) -> Result<(), Reason> {
        let mut metadata = metadata.filter(|_| self.knows(1));
        metadata.try_for_each(|(key, value)| {
            policy::check_override(key, value)?;
            if self.knows(2) { policy::check_effect(key) } else { Ok(()) }
        })
    }

    /// It keeps its name, and is not removed, while it has nodes.
    fn check_aggregate_unused(&self, name: &str, nodes: &OrdSet<NodeId>) -> Result<(), Reason> {
        let nodes = nodes.iter().filter_map(|id| self.state.nodes.get(id));
        let by = some_names(nodes.map(|node| node.name.as_str()));
        if by.is_empty() {
            return Ok(());
        }
        Err(Reason::InUse { kind: Kind::Aggregate, name: name.to_owned(), by })
    }

    /// The last aggregate of a zone does not take it away from VMs that ask for it: those that wait or are off would
    /// find no host any more. `zone` is what the aggregate names from now on.
    fn check_zone_goes(&self, before: &Aggregate, zone: Option<&str>) -> Result<(), Reason> {
        if !self.knows(1) {
            return Ok(());
        }
        let Some(gone) = before.zone().filter(|gone| Some(*gone) != zone && *gone != DEFAULT_ZONE) else {
            return Ok(());
        };
        let mut others = self.state.aggregates.values().filter(|other| other.id != before.id);
        if others.any(|other| other.zone() == Some(gone)) {
            return Ok(());
        }
        let asks = |vm: &&Vm| vm.spec.scheduling.availability_zone.as_deref() == Some(gone);
        let by = some_names(self.state.vms.values().filter(asks).map(|vm| vm.name.as_str()));
        if by.is_empty() {
            return Ok(());
        }
        Err(self.zone_in_use(gone, by))
    }

    fn check_aggregate(&self, aggregate: &Aggregate) -> Result<(), Reason> {
        limits::name("name", &aggregate.name)?;
        limits::map("metadata", &aggregate.metadata)?;
        limits::count("inventory", aggregate.inventory.len())?;
        if let Some(zone) = aggregate.zone() {
            limits::name("metadata.availability_zone", zone)?;
        }
        let others = || self.state.aggregates.values().filter(|other| other.id != aggregate.id);
        if others().any(|other| other.name == aggregate.name) {
            return Err(Reason::NameTaken { kind: Kind::Aggregate, name: aggregate.name.clone() });
        }
        for id in &aggregate.nodes {
            let node = self.state.nodes.get(id).ok_or_else(|| not_found(Kind::Node, id))?;
            let Some(zone) = aggregate.zone() else { continue };
            let elsewhere = others().find(|other| {
                other.nodes.contains(id) && other.zone().is_some_and(|other_zone| other_zone != zone)
            });
            if let Some(other) = elsewhere {
                let message =
                    format!("node `{}` is in another zone by aggregate `{}`", node.name, other.name);
                return Err(invalid("nodes", message));
            }
        }
        Ok(())
    }

    /// A node does not change its zone under VMs that were created for that zone, nor leaves one that has a name while
    /// VMs are on it: who asked for no zone may depend on it all the same (Nova refuses it, too).
    fn check_zones_in_use(&self, before: Option<&Aggregate>, after: &Aggregate) -> Result<(), Reason> {
        let empty = OrdSet::new();
        let nodes_before = before.map_or(&empty, |before| &before.nodes);
        for id in nodes_before.clone().union(after.nodes.clone()) {
            let zone_before = self.state.zone_of(id);
            let zone_after = if after.nodes.contains(&id) && after.zone().is_some() {
                after.zone()
            } else {
                self.state.zone_without(id, after.id)
            };
            let zone_after = zone_after.unwrap_or(DEFAULT_ZONE);
            if zone_after == zone_before {
                continue;
            }
            let leaves = zone_before != DEFAULT_ZONE && self.knows(2);
            let asked = |vm: &&Vm| leaves || vm.spec.scheduling.availability_zone.is_some();
            let by = some_names(self.state.vms_on(id).filter(asked).map(|vm| vm.name.as_str()));
            if !by.is_empty() {
                return Err(self.zone_in_use(zone_before, by));
            }
        }
        Ok(())
    }

    fn zone_in_use(&self, zone: &str, by: Vec<String>) -> Reason {
        let (kind, name) = match self.knows(2) {
            true => (Kind::Zone, zone.to_owned()),
            false => (Kind::Aggregate, format!("{ZONE_KEY}={zone}")),
        };
        Reason::InUse { kind, name, by }
    }

    fn put_aggregate(&mut self, before: Option<Aggregate>, aggregate: Aggregate) {
        let mut touched = before.map(|before| before.nodes).unwrap_or_default();
        touched.extend(aggregate.nodes.iter().copied());
        self.state.aggregates.insert(aggregate.id, aggregate);
        for node in touched {
            self.refresh_inventory(node);
        }
    }

    /// Works out anew what a node offers; called whenever one of its sources changed.
    pub(super) fn refresh_inventory(&mut self, id: NodeId) {
        let Some(mut node) = self.state.nodes.get(&id).cloned() else { return };
        node.inventory = self.state.inventory_of(id);
        node.recount_room();
        node.compare_inventory(self.at);
        self.state.nodes.insert(id, node);
    }
}

/// Sets the keys with a value and removes those without.
pub(super) fn change<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, changes: &BTreeMap<K, Option<V>>) {
    for (key, value) in changes {
        match value {
            Some(value) => {
                map.insert(key.clone(), value.clone());
            }
            None => {
                map.remove(key);
            }
        }
    }
}
