//! The weighers there are, one a file. [`crate::Policy`] lists those in use.

mod cpu;
mod ram;

use holm_model::ResourceClass;

pub use self::cpu::Cpu;
pub use self::ram::Ram;
use crate::filter::Host;

/// Capacity less claims of `class`, overcommit included, as Nova's weighers count.
fn free(host: &Host<'_>, class: &ResourceClass) -> i64 {
    let capacity = host
        .node
        .report
        .as_ref()
        .and_then(|report| report.inventory.get(class))
        .map_or(0, |inventory| inventory.capacity());
    let clamp = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    clamp(capacity).saturating_sub(clamp(host.claimed.get(class)))
}
