//! What `set-inventory` of nodes and of aggregates asks for.

use std::collections::BTreeMap;

use holm_api::InventoryOverride;

use crate::args::value::InventoryOptions;

/// The change of one class: an override, or none to go back to what is reported.
pub fn change(typed: &InventoryOptions) -> BTreeMap<String, Option<InventoryOverride>> {
    let over = InventoryOverride {
        total: typed.total,
        reserved: typed.reserved,
        allocation_ratio: typed.ratio,
        min_unit: typed.min_unit,
        max_unit: typed.max_unit,
        step_size: typed.step_size,
    };
    BTreeMap::from([(typed.class.clone(), (!typed.reset).then_some(over))])
}
