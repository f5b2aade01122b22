//! Latency of every operation, and rates, over time; faults are shaded.

use super::series::{End, Point};
use super::svg::{Chart, seconds};
use crate::history::Fault;

const PLOT: (f64, f64) = (1_060.0, 300.0);
/// More would only make the file long.
const DOTS: usize = 12_000;

/// A dot an operation: when it was sent, and how long it took, on a logarithmic scale.
pub fn latency(points: &[Point], faults: &[Fault], end_ns: u64) -> String {
    let mut chart = Chart::new("latency", PLOT, seconds(end_ns));
    chart.faults(faults);
    chart.time_axis();
    let share = |ms: f64| (ms.max(0.1).log10() + 1.0) / 5.5;
    for (ms, label) in
        [(0.1, "0.1 ms"), (1.0, "1 ms"), (10.0, "10 ms"), (100.0, "100 ms"), (1e3, "1 s"), (1e4, "10 s")]
    {
        chart.level(share(ms), label);
    }
    let every = points.len().div_ceil(DOTS).max(1);
    for point in points.iter().step_by(every) {
        let ms = seconds(point.completed_ns.unwrap_or(end_ns).saturating_sub(point.invoked_ns)) * 1e3;
        let at = (chart.x(seconds(point.invoked_ns)), chart.y(share(ms)));
        chart.dot(
            at,
            point.end.colour(),
            &format!("op {} {} at {}: {ms:.1} ms", point.op, point.f, point.node),
        );
    }
    chart.legend(&End::ALL.map(|end| (end.name(), end.colour())));
    chart.finish()
}

/// Operations a second that ended in each way.
pub fn rate(points: &[Point], faults: &[Fault], end_ns: u64) -> String {
    let mut chart = Chart::new("operations that ended, a second", PLOT, seconds(end_ns));
    chart.faults(faults);
    chart.time_axis();
    let bins = usize::try_from(end_ns / 1_000_000_000).unwrap_or(0) + 1;
    let of = |end: End| {
        let mut counts = vec![0_u64; bins];
        for point in points.iter().filter(|point| point.end == end) {
            let at = point.completed_ns.unwrap_or(end_ns) / 1_000_000_000;
            if let Some(count) = usize::try_from(at).ok().and_then(|at| counts.get_mut(at)) {
                *count += 1;
            }
        }
        counts
    };
    let series = End::ALL.map(|end| (end, of(end)));
    let most = series.iter().flat_map(|(_, counts)| counts).max().copied().unwrap_or(0).max(1);
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        chart.level(share, &format!("{:.0}", share * most as f64));
    }
    for (end, counts) in series {
        let line = counts
            .iter()
            .enumerate()
            .map(|(at, count)| (chart.x(at as f64 + 0.5), chart.y(*count as f64 / most as f64)));
        let line: Vec<_> = line.collect();
        chart.path(&line, end.colour());
    }
    chart.legend(&End::ALL.map(|end| (end.name(), end.colour())));
    chart.finish()
}
