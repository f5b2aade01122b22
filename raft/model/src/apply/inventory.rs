//! What an operator says a node offers, itself or by an aggregate. A change is made to what is there: what it does not
//! name stays. What could not be claimed, whatever else is set, is refused.

use std::collections::BTreeMap;

use super::aggregate::change;
use super::{Cx, invalid};
use crate::limits;
use crate::node::Node;
use crate::parts::PCPU;
use crate::reply::Reason;
use crate::resources::{InventoryOverride, ResourceClass};

type Changes = BTreeMap<ResourceClass, Option<InventoryOverride>>;

impl Cx<'_> {
    /// Makes the changes. Before rule 2 an override took the place of the whole earlier one.
    pub(super) fn change_overrides(
        &self,
        overrides: &mut BTreeMap<ResourceClass, InventoryOverride>,
        changes: &Changes,
    ) -> Result<(), Reason> {
        for (class, change) in changes {
            if !self.knows(1) {
                limits::resource_class("inventory", class)?;
            }
            check_override(class, change.as_ref())?;
        }
        if !self.knows(2) {
            change(overrides, changes);
            return Ok(());
        }
        check_parts(changes)?;
        for (class, change) in changes {
            let Some(change) = change else {
                overrides.remove(class);
                continue;
            };
            let mut over = overrides.remove(class).unwrap_or_default();
            over.change(change);
            check_override(class, Some(&over))?;
            if over != InventoryOverride::default() {
                overrides.insert(class.clone(), over);
            }
        }
        Ok(())
    }

    /// What is changed is about something the node has, by its report, an aggregate or an operator.
    pub(super) fn check_is_there(&self, node: &Node, changes: &Changes) -> Result<(), Reason> {
        let Some(report) = node.report.as_ref().filter(|_| self.knows(2)) else { return Ok(()) };
        let changed = changes.iter().filter_map(|(class, change)| change.as_ref().map(|_| class));
        for class in changed.filter(|class| matches!(class, ResourceClass::Custom(_))) {
            let aggregates = self.state.aggregates.values().filter(|other| other.nodes.contains(&node.id));
            let by_aggregates = aggregates.filter_map(|aggregate| aggregate.inventory.get(class)?.total);
            let own = node.inventory_overrides.get(class).map(|over| over.total);
            // What is said no longer needs nothing.
            let Some(own) = own else { continue };
            let reported = report.inventory.get(class).map(|has| has.total);
            if by_aggregates.chain(own).chain(reported).any(|total| total > 0) || own == Some(0) {
                continue;
            }
            return Err(invalid(
                "inventory",
                match class.name() {
                    PCPU => "PCPU: the node sets no CPUs apart (`dedicated` under `[cpu]` in its holmd.toml)"
                        .to_owned(),
                    class => format!("{class}: the node has none: say how many there are, with `total`"),
                },
            ));
        }
        Ok(())
    }
}

/// An override that no claim could ever satisfy is a mistake. One of `PCPU` counts the CPUs that are set apart; which
/// they are, the host says.
fn check_override(class: &ResourceClass, change: Option<&InventoryOverride>) -> Result<(), Reason> {
    let is_pcpu = class.name() == PCPU;
    if !is_pcpu {
        limits::resource_class("inventory", class)?;
    }
    let Some(change) = change else { return Ok(()) };
    let wrong = |message: &str| Err(invalid("inventory", format!("{class}: {message}")));
    let (least, greatest) = (change.min_unit.unwrap_or(1), change.max_unit.unwrap_or(u64::MAX));
    if change.step_size == Some(0) || least == 0 || greatest == 0 {
        return wrong("min_unit, max_unit and step_size must be at least 1");
    }
    if least > greatest {
        return wrong("min_unit is greater than max_unit");
    }
    if change.allocation_ratio_thousandths.is_some_and(|ratio| ratio == 0 || ratio > 1_000_000) {
        return wrong("allocation_ratio must be above 0 and at most 1000");
    }
    if is_pcpu && change.allocation_ratio_thousandths.is_some_and(|ratio| ratio != 1000) {
        return wrong("allocation_ratio must be 1: a dedicated CPU is one VM's");
    }
    Ok(())
}

/// Dedicated CPUs are those the host sets apart: nobody says how many.
fn check_parts(changes: &Changes) -> Result<(), Reason> {
    let says_total = |class: &ResourceClass, change: &Option<InventoryOverride>| {
        class.name() == PCPU && change.as_ref().is_some_and(|change| change.total.is_some())
    };
    if changes.iter().any(|(class, change)| says_total(class, change)) {
        let message = "PCPU: total is how many CPUs the host sets apart (`dedicated` under `[cpu]` in its \
                       holmd.toml); `reserved` keeps some of them back";
        return Err(invalid("inventory", message));
    }
    Ok(())
}
