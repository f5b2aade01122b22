//! VMs that had more than one process, process by process: where each ran, under which epoch, when it ended after which
//! fault began, and how long none ran. And what the cluster itself said of its nodes meanwhile. To follow one VM through
//! a fault without measuring charts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use holm_api::{Event, EventKind};
use serde_json::Value;
use uuid::Uuid;

use super::svg::{escape, kind, seconds};
use super::vms::recorded;
use crate::harness::witness::Lifetime;
use crate::history::Fault;

/// Rows of either table.
const ROWS: usize = 200;

/// Both tables; empty where there is nothing to tell.
pub fn tables(evidence: &Value, faults: &[Fault]) -> String {
    processes(evidence, faults) + &nodes(evidence)
}

fn processes(evidence: &Value, faults: &[Fault]) -> String {
    let lifetimes = evidence.get("lifetimes").cloned().unwrap_or_default();
    let lifetimes: Vec<Lifetime> = serde_json::from_value(lifetimes).unwrap_or_default();
    let names = recorded(evidence);
    let mut by_vm = BTreeMap::<(String, Uuid), Vec<Lifetime>>::new();
    for life in lifetimes {
        let id = life.vm.to_string();
        by_vm.entry((names.get(&id).cloned().unwrap_or(id), life.vm)).or_default().push(life);
    }
    by_vm.retain(|_, lives| lives.len() > 1);
    if by_vm.is_empty() {
        return String::new();
    }
    let mut table =
        "<h2>VMs with more than one process, as the kernel showed them</h2>\n<table><tr><th>VM</th>\
         <th>node</th><th>process</th><th>epoch</th><th>from</th><th>until</th><th>before that</th></tr>\n"
            .to_owned();
    let rows = by_vm.iter_mut().flat_map(|((name, _), lives)| {
        lives.sort_by_key(|life| life.from_ns);
        let mut before: Option<&Lifetime> = None;
        let rows = lives.iter().map(move |life| row(name, before.replace(life), life, faults));
        rows.collect::<Vec<_>>()
    });
    rows.take(ROWS).for_each(|row| table.push_str(&row));
    table.push_str("</table>\n");
    table
}

fn row(name: &str, before: Option<&Lifetime>, life: &Lifetime, faults: &[Fault]) -> String {
    let gap = before.map_or("it was first seen".to_owned(), |before| {
        match life.from_ns.checked_sub(before.until_ns) {
            Some(gap) => format!("none ran for {:.2} s", seconds(gap)),
            None => format!("<b>two ran for {:.2} s</b>", seconds(before.until_ns - life.from_ns)),
        }
    });
    let name = if before.is_none() { escape(name) } else { String::new() };
    format!(
        "<tr><td>{name}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.2} s</td><td>{:.2} s{}</td><td>{gap}</td></tr>\n",
        escape(&life.node),
        life.pid,
        life.epoch.map_or("not read".to_owned(), |epoch| epoch.to_string()),
        seconds(life.from_ns),
        seconds(life.until_ns),
        cause(life, faults)
    )
}

/// The latest fault on its node that had begun, if the process ended while it was on or a little later.
fn cause(life: &Lifetime, faults: &[Fault]) -> String {
    const LATER_NS: u64 = 12_000_000_000;
    let hit = |fault: &&Fault| fault.node.split(',').any(|node| node == life.node);
    let there = |fault: &&Fault| {
        fault.began_ns <= life.until_ns
            && fault.healed_ns.is_none_or(|healed| healed.saturating_add(LATER_NS) > life.until_ns)
    };
    let fault = faults.iter().filter(hit).filter(there).max_by_key(|fault| fault.began_ns);
    fault.map_or_else(String::new, |fault| {
        format!(
            ", {:.2} s after {} of {} began",
            seconds(life.until_ns - fault.began_ns),
            kind(fault),
            escape(&fault.node)
        )
    })
}

fn nodes(evidence: &Value) -> String {
    let stream = evidence.get("stream").or_else(|| evidence.get("streams")?.get(0));
    let events = stream.and_then(|stream| stream.get("events")).cloned().unwrap_or_default();
    let events: Vec<Event> = serde_json::from_value(events).unwrap_or_default();
    let about_nodes = |event: &&Event| event.kind == EventKind::Node && event.what != "reported";
    let mut rows = events.iter().filter(about_nodes).take(ROWS).peekable();
    if rows.peek().is_none() {
        return String::new();
    }
    let mut table =
        "<h2>What the cluster said of its nodes</h2>\n<table><tr><th>revision</th><th>by its clock</th>\
         <th>node</th><th>what</th><th></th></tr>\n"
            .to_owned();
    for event in rows {
        let _ = writeln!(
            table,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            event.revision,
            escape(&event.at.0),
            escape(&event.name),
            escape(&event.what),
            escape(&event.message)
        );
    }
    table.push_str("</table>\n");
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::FaultKind;

    #[test]
    fn a_vm_that_moved_is_told_process_by_process_and_one_that_did_not_is_left_out() {
        let life = |vm: u128, node: &str, pid: i32, from_s: u64, until_s: u64| {
            json!({"vm": Uuid::from_u128(vm), "node": node, "pid": pid, "start_ticks": 1, "epoch": pid + 10,
                "from_ns": from_s * 1_000_000_000, "until_ns": until_s * 1_000_000_000})
        };
        let evidence = json!({
            "lifetimes": [life(1, "n1", 7, 9, 19), life(1, "n2", 8, 32, 40), life(2, "n3", 9, 9, 40)],
            "vms": [{"id": Uuid::from_u128(1), "name": "moves"}, {"id": Uuid::from_u128(2), "name": "stays"}],
        });
        let fault = Fault::new(FaultKind::PartitionLeader, "n1".to_owned(), true, 11_000_000_000);
        let told = tables(&evidence, &[fault]);
        assert!(told.contains("19.00 s, 8.00 s after partition-leader of n1 began"), "{told}");
        assert!(
            told.contains("<td>18</td><td>32.00 s</td><td>40.00 s</td><td>none ran for 13.00 s</td>"),
            "{told}"
        );
        assert!(!told.contains("stays"), "{told}");
        assert_eq!(tables(&Value::Null, &[]), "");
    }
}
