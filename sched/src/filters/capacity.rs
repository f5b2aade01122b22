//! Claims never exceed `(total - reserved) × ratio`, for every resource class, and each is an amount the
//! inventory takes, as OpenStack Placement counts.

use holm_model::ResourceClass;
use holm_model::feasible::{self, Refusal, Shortage};
use holm_model::parts::PCPU;
use holm_model::resources::Inventory;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host has room for the claim.
#[derive(Clone, Copy, Debug)]
pub struct Capacity;

impl Filter for Capacity {
    fn name(&self) -> &'static str {
        "Capacity"
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        feasible::capacity(host.node, host.claimed(), &request.claim)
    }

    fn fix(&self, request: &Request<'_>, host: &Host<'_>) -> String {
        let shortages: Vec<_> = feasible::shortages(host.node, host.claimed(), &request.claim).collect();
        // What no room of other classes would help against goes first.
        if let Some(fix) = shortages.iter().find_map(beyond_room) {
            return fix;
        }
        let is_too_small = |shortage: &Shortage<'_>| matches!(shortage, Shortage::Full { amount, capacity, .. } if amount > capacity);
        let room = if shortages.iter().any(is_too_small) {
            "the node is too small for it even without other VMs: take a smaller flavor, or add a larger node"
        } else {
            "move or delete VMs (`holm vm list --node NODE`), take a smaller flavor, or add a node"
        };
        let is_vcpus =
            |shortage: &Shortage<'_>| matches!(shortage, Shortage::Full { class: ResourceClass::Vcpu, .. });
        if shortages.iter().all(is_vcpus) {
            return format!("{room}; or overcommit more: `holm node set-inventory NODE VCPU --ratio N`");
        }
        room.to_owned()
    }

    #[inline]
    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        let told = request.wanted.fits(host);
        told.unwrap_or_else(|| feasible::has_capacity(host.node, host.claimed(), &request.claim))
    }
}

/// What helps where the node has none of a class, or takes other amounts of it.
fn beyond_room(shortage: &Shortage<'_>) -> Option<String> {
    match shortage {
        Shortage::Absent { class } if class.name() == PCPU => {
            Some("set CPUs apart there: `[cpu] dedicated` in the configuration of its `holmd`".to_owned())
        }
        Shortage::Absent { class } => {
            Some(format!("if the node has some: `holm node set-inventory NODE {class} --total N`"))
        }
        Shortage::Unit { class, amount, inventory } => Some(format!(
            "a flavor within those limits, or other limits: `holm node set-inventory NODE {class} {} N`",
            unit_flag(*amount, inventory)
        )),
        Shortage::Full { .. } => None,
    }
}

/// The flag of the limit that refuses `amount`.
fn unit_flag(amount: u64, inventory: &Inventory) -> &'static str {
    if amount < inventory.min_unit {
        "--min-unit"
    } else if amount > inventory.max_unit {
        "--max-unit"
    } else {
        "--step-size"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_refuses_is_the_one_to_change() {
        let limits = Inventory { min_unit: 2, max_unit: 8, step_size: 2, ..Inventory::of(100) };
        for (amount, flag) in [(1, "--min-unit"), (10, "--max-unit"), (3, "--step-size")] {
            assert!(!limits.takes(amount));
            assert_eq!(unit_flag(amount, &limits), flag, "{amount}");
        }
    }
}
