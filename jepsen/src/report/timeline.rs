//! Every operation as a bar from its beginning to its end, a lane a client, with what was asked and answered on
//! hover. Operations that a verdict names are framed.

use std::collections::{BTreeMap, BTreeSet};

use super::series::Point;
use super::svg::{Chart, escape, seconds};
use crate::history::Fault;

const LANE: f64 = 15.0;
const PIXELS_A_SECOND: f64 = 90.0;
const WIDEST: f64 = 30_000.0;
/// The first so many; a browser takes no more at once.
const MOST: usize = 6_000;

/// The page.
pub fn page(points: &[Point], faults: &[Fault], named: &BTreeSet<u64>, end_ns: u64) -> String {
    let lanes = lanes(points);
    let count = lanes.values().max().map_or(1, |lane| lane + 1);
    let width = (seconds(end_ns) * PIXELS_A_SECOND).clamp(600.0, WIDEST);
    let mut chart = Chart::new("operations by client", (width, LANE * count as f64), seconds(end_ns));
    chart.faults(faults);
    chart.time_axis();
    let drawn = points.iter().filter(|point| named.contains(&point.op));
    for point in points.iter().take(MOST).chain(drawn) {
        let until = point.completed_ns.unwrap_or(end_ns);
        let (from, until) = (chart.x(seconds(point.invoked_ns)), chart.x(seconds(until)));
        let top = chart.row(LANE * lanes.get(&point.process).copied().unwrap_or(0) as f64);
        let detail: String = point.detail.chars().take(400).collect();
        let title = format!(
            "op {} by process {} at {}: {} {detail}\n{:.1} ms from {:.3} s",
            point.op,
            point.process,
            point.node,
            point.f,
            seconds(point.completed_ns.unwrap_or(end_ns) - point.invoked_ns) * 1e3,
            seconds(point.invoked_ns)
        );
        if named.contains(&point.op) {
            chart.area((from - 2.0, top), ((until - from).max(2.0) + 4.0, LANE), "#d62728", 1.0, &title);
        }
        chart.area(
            (from, top + 2.0),
            ((until - from).max(2.0), LANE - 4.0),
            point.end.colour(),
            0.85,
            &title,
        );
    }
    let left = points.len().saturating_sub(MOST);
    let note = if left > 0 {
        format!("<p>{left} later operations are not drawn; they are in history.jsonl.</p>")
    } else {
        String::new()
    };
    format!(
        "<!doctype html><meta charset='utf-8'><title>{}</title>\n<body style='margin:8px;font-family:sans-serif'>\n\
         <p><a href='index.html'>report</a> · hover over a bar for what was asked and answered; red frames are named by a \
         verdict.</p>{note}\n{}</body>\n",
        escape("operations by client"),
        chart.finish()
    )
}

/// A client that did not learn what became of an operation goes on as another process, in the same lane where it
/// can be told: the lane that has been free longest.
fn lanes(points: &[Point]) -> BTreeMap<u64, usize> {
    let mut spans = BTreeMap::<u64, (u64, u64)>::new();
    for point in points {
        let end = point.completed_ns.unwrap_or(u64::MAX);
        let span = spans.entry(point.process).or_insert((point.invoked_ns, end));
        *span = (span.0.min(point.invoked_ns), span.1.max(end));
    }
    let mut order: Vec<_> = spans.into_iter().collect();
    order.sort_by_key(|(_, span)| span.0);
    let mut free: Vec<u64> = Vec::new();
    let mut lanes = BTreeMap::new();
    for (process, (from, until)) in order {
        let lane = free.iter().position(|end| *end <= from).unwrap_or_else(|| {
            free.push(0);
            free.len() - 1
        });
        free[lane] = until;
        lanes.insert(process, lane);
    }
    lanes
}
