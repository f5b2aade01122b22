//! What the API's records look like to people: a row in a list, and everything about one of them.

mod aggregate;
mod candidates;
mod cluster;
mod deleted;
pub mod drain;
mod event;
pub mod explain;
mod flavor;
mod group;
mod image;
mod node;
pub mod orphan;
pub mod policy;
mod project;
mod quota;
mod rebalance;
mod scheduler;
pub mod vm;
mod volume;
mod what_if;
mod zone;

use std::collections::{BTreeMap, BTreeSet};

use holm_api::{Hypervisor, HypervisorKind, InventoryOverride};
use serde::Serialize;

use super::text::Now;

pub use self::event::line as event_line;

/// Something the API shows.
pub trait Record: Serialize + Sized {
    /// Headers of a list.
    const COLUMNS: &'static [&'static str];

    /// What `-o name` prints, and what commands accept.
    fn name(&self) -> String;

    /// Cells of a list, as many as there are columns.
    fn row(&self, now: Now) -> Vec<String>;

    /// Everything about this one.
    fn detail(&self, now: Now) -> String;

    /// Lines below a list: what the reader must not overlook.
    fn footer(_records: &[Self]) -> Vec<String> {
        Vec::new()
    }
}

/// The project that needs no name.
pub const DEFAULT_PROJECT: &str = "default";

/// A name among those of several projects, as the cluster writes it too: `shop/web`, and `web` in `default`.
pub fn name_among_all(project: &str, name: &str) -> String {
    if project == DEFAULT_PROJECT { name.to_owned() } else { format!("{project}/{name}") }
}

/// The project of a record's details, where it is not the usual one.
fn project(name: &str) -> (String, String) {
    optional("Project", Some(name).filter(|name| *name != DEFAULT_PROJECT))
}

/// A labelled value of a record's details.
fn field(label: &str, value: impl ToString) -> (String, String) {
    (label.to_owned(), value.to_string())
}

/// A labelled value that may be absent.
fn optional(label: &str, value: Option<impl ToString>) -> (String, String) {
    (label.to_owned(), value.map(|value| value.to_string()).unwrap_or_default())
}

/// `DISK_GB 4, VCPU 2`.
fn amounts(amounts: &BTreeMap<String, u64>) -> String {
    amounts.iter().map(|(class, n)| format!("{class} {n}")).collect::<Vec<_>>().join(", ")
}

/// Lines under a heading.
fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

/// `key=value`, one a line.
fn pairs(pairs: &BTreeMap<String, String>) -> String {
    pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("\n")
}

/// Inventory overrides, a class a line: `VCPU: total 64, ratio 1.5`.
fn overrides(overrides: &BTreeMap<String, InventoryOverride>) -> String {
    let line = |(class, over): (&String, &InventoryOverride)| {
        let numbers = [
            ("total", over.total),
            ("reserved", over.reserved),
            ("least", over.min_unit),
            ("most", over.max_unit),
            ("step", over.step_size),
        ];
        let numbers = numbers.into_iter().filter_map(|(name, n)| Some(format!("{name} {}", n?)));
        let ratio = over.allocation_ratio.map(|ratio| format!("ratio {ratio}"));
        format!("{class}: {}", numbers.chain(ratio).collect::<Vec<_>>().join(", "))
    };
    overrides.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A hypervisor in one word.
fn hypervisor(hypervisor: Option<&Hypervisor>) -> String {
    match hypervisor.map(|hypervisor| hypervisor.kind) {
        Some(HypervisorKind::CloudHypervisor) => "cloud-hypervisor".into(),
        Some(HypervisorKind::Simulated) => "simulated".into(),
        None => String::new(),
    }
}

/// A hypervisor with its version or its excuse.
fn hypervisor_in_full(found: &Hypervisor) -> String {
    let mut text = hypervisor(Some(found));
    if !found.version.is_empty() {
        text += &format!(" {}", found.version);
    }
    if found.kind == HypervisorKind::Simulated {
        text += ": no guest runs";
    }
    if !found.reason.is_empty() {
        text += &format!(" ({})", found.reason);
    }
    text
}

/// A warning for each reason why nodes simulate: nobody may take a simulated guest for a real one.
fn simulated<'a>(found: impl IntoIterator<Item = (Option<&'a str>, Option<&'a Hypervisor>)>) -> Vec<String> {
    let mut reasons: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (node, hypervisor) in found {
        if let Some(hypervisor) = hypervisor.filter(|found| found.kind == HypervisorKind::Simulated) {
            reasons.entry(&hypervisor.reason).or_default().extend(node);
        }
    }
    let nodes = |nodes: BTreeSet<&str>| nodes.into_iter().collect::<Vec<_>>().join(", ");
    let sentence = |(reason, on): (&str, BTreeSet<&str>)| match reason {
        "" => format!("simulated: no guest runs on {}", nodes(on)),
        reason => format!("simulated: no guest runs on {}: {reason}", nodes(on)),
    };
    reasons.into_iter().map(sentence).collect()
}

#[cfg(test)]
pub mod fixtures;
#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
