//! What `set-inventory` of nodes and of aggregates asks for.

use std::collections::BTreeMap;

use holm_api::PatchInventory;

use crate::args::value::{InventoryOptions, Said};

/// The change of one class, or none to take back all that was said of it.
pub fn change(typed: &InventoryOptions) -> BTreeMap<String, Option<PatchInventory>> {
    let change = PatchInventory {
        total: typed.total.map(Said::number),
        reserved: typed.reserved.map(Said::number),
        allocation_ratio: typed.ratio.map(Said::number),
        min_unit: typed.min_unit.map(Said::number),
        max_unit: typed.max_unit.map(Said::number),
        step_size: typed.step_size.map(Said::number),
    };
    BTreeMap::from([(typed.class.clone(), (!typed.reset).then_some(change))])
}
