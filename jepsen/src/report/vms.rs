//! VMs over time, a row each: what clients know of it (from the acknowledgement of its create to that of its
//! delete), and under it the processes that the operating system saw, by node. Follow a VM through a fault here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::series::{End, Point};
use super::svg::{Chart, seconds};
use crate::harness::witness::Lifetime;
use crate::history::Fault;

const WIDTH: f64 = 1_060.0;
const ROW: f64 = 16.0;
/// Those that lived longest.
const ROWS: usize = 120;
const COLOURS: [&str; 9] =
    ["#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#17becf", "#bcbd22", "#e377c2", "#7f7f7f"];

/// What one VM's row shows.
#[derive(Default)]
struct Row {
    name: String,
    /// As clients know it.
    known: Option<(u64, u64)>,
    lives: Vec<Lifetime>,
}

/// The chart. None: the run was not about VMs.
pub fn chart(points: &[Point], evidence: &Value, faults: &[Fault], end_ns: u64) -> Option<String> {
    let lifetimes: Vec<Lifetime> =
        evidence.get("lifetimes").and_then(|of| serde_json::from_value(of.clone()).ok()).unwrap_or_default();
    let mut rows = rows(points, lifetimes, &recorded(evidence), end_ns);
    if rows.is_empty() {
        return None;
    }
    let all = rows.len();
    rows.sort_by_key(|row| std::cmp::Reverse(length(row)));
    rows.truncate(ROWS);
    rows.sort_by_key(first);
    let title = format!(
        "VMs ({} of {all}): grey as clients know them, coloured as processes the kernel shows",
        rows.len()
    );
    let mut chart = Chart::new(&title, (WIDTH, ROW * rows.len() as f64), seconds(end_ns));
    chart.faults(faults);
    chart.time_axis();
    let nodes: BTreeSet<&str> =
        rows.iter().flat_map(|row| &row.lives).map(|life| life.node.as_str()).collect();
    let nodes: Vec<&str> = nodes.into_iter().collect();
    for (at, row) in rows.iter().enumerate() {
        let top = chart.row(ROW * at as f64);
        chart.text((4.0, top + 11.0), row.name.get(..11).unwrap_or(&row.name), "font-size='9'");
        let bar = |chart: &mut Chart,
                   from: u64,
                   until: u64,
                   (shift, height): (f64, f64),
                   colour: &str,
                   title: &str| {
            let (from, until) = (chart.x(seconds(from)), chart.x(seconds(until)));
            chart.area((from, top + shift), ((until - from).max(1.5), height), colour, 0.9, title);
        };
        if let Some((from, until)) = row.known {
            bar(&mut chart, from, until, (2.0, 4.0), "#b8b8b8", &format!("{} as clients know it", row.name));
        }
        for life in &row.lives {
            let node = nodes.iter().position(|node| *node == life.node).unwrap_or_default();
            let title = format!(
                "{} on {}: process {} from {:.2} to {:.2} s",
                life.vm,
                life.node,
                life.pid,
                seconds(life.from_ns),
                seconds(life.until_ns)
            );
            bar(&mut chart, life.from_ns, life.until_ns, (7.0, 6.0), COLOURS[node % COLOURS.len()], &title);
        }
    }
    let legend: Vec<_> = nodes.into_iter().zip(COLOURS).collect();
    chart.legend(&legend);
    Some(chart.finish())
}

/// Names by id, of VMs that were there in the end.
pub(super) fn recorded(evidence: &Value) -> BTreeMap<String, String> {
    let views = evidence["views"][0][1].as_array().into_iter().flatten();
    let vms = evidence["vms"].as_array().into_iter().flatten().chain(views);
    let named = vms.filter_map(|vm| Some((vm["id"].as_str()?.to_owned(), vm["name"].as_str()?.to_owned())));
    named.collect()
}

fn rows(
    points: &[Point],
    lifetimes: Vec<Lifetime>,
    recorded: &BTreeMap<String, String>,
    end_ns: u64,
) -> Vec<Row> {
    let mut by_name = BTreeMap::<String, Row>::new();
    let mut ids = recorded.clone();
    for point in points.iter().filter(|point| point.end == End::Ok) {
        let (Some(name), Some(done)) = (quoted(&point.detail, "name"), point.completed_ns) else { continue };
        let row = by_name.entry(name.clone()).or_insert_with(|| Row { name: name.clone(), ..Row::default() });
        match point.f.as_str() {
            "create" => {
                row.known = Some((row.known.map_or(done, |known| known.0), end_ns));
                if let Some(id) = quoted(&point.detail, "id") {
                    ids.insert(id, name);
                }
            }
            "delete" => row.known = Some((row.known.map_or(done, |known| known.0), done)),
            _ => {}
        }
    }
    for life in lifetimes {
        let id = life.vm.to_string();
        let name = ids.get(&id).cloned().unwrap_or(id);
        by_name.entry(name.clone()).or_insert_with(|| Row { name, ..Row::default() }).lives.push(life);
    }
    by_name.into_values().filter(|row| row.known.is_some() || !row.lives.is_empty()).collect()
}

/// The text of a field, wherever it is in some JSON.
fn quoted(json: &str, field: &str) -> Option<String> {
    let rest = json.split_once(&format!("\"{field}\":\""))?.1;
    Some(rest.split_once('"')?.0.to_owned())
}

fn first(row: &Row) -> u64 {
    row.lives.iter().map(|life| life.from_ns).chain(row.known.map(|known| known.0)).min().unwrap_or(0)
}

fn length(row: &Row) -> u64 {
    let until =
        row.lives.iter().map(|life| life.until_ns).chain(row.known.map(|known| known.1)).max().unwrap_or(0);
    until.saturating_sub(first(row))
}
