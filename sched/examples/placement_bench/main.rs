//! How much processor time a placement decision takes: it waits for nothing, so on a machine that has nothing else to
//! do that is how long it lasts. Prints one JSON object a line, in the form `cargo xtask bench`
//! collects: `{name, unit, value, p50, p99, max, note}`; the value is the median. Run it with `--release`; `--quick`
//! for fewer rounds, or a part of the names for those cases alone.
#![allow(clippy::disallowed_methods, reason = "it measures time; the library does not")]

mod cases;
mod cluster;

use std::collections::BTreeMap;

use holm_model::State;
use holm_model::command::Command;
use holm_sched::controllers::Placement;
use holm_sched::{Controller, Facts};
use nix::time::{ClockId, clock_gettime};

use crate::cases::{Case, Expect, cases};

/// Growth of the time with the number of hosts: from, to.
const GROWTH: [(u64, u64); 2] = [(100, 1_000), (1_000, 10_000)];

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let only = std::env::args().nth(1).filter(|arg| !arg.starts_with("--"));
    let mut told = BTreeMap::new();
    for case in cases() {
        let name = format!("placement decision, {} hosts, {}", case.hosts, case.label);
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let times = measure(&case, quick);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let target = case.target_us.map(|us| format!("target ≤ {us}; ")).unwrap_or_default();
        let line = serde_json::json!({
            "name": name,
            "unit": if case.per_decision { "us" } else { "us/VM" },
            "value": at(0.5), "min": at(0.0), "p50": at(0.5), "p99": at(0.99), "max": at(1.0),
            "note": format!("{target}{} decisions, {}", times.len(), case.note),
        });
        println!("{line}");
        told.insert((case.label, case.hosts), (at(0.0), at(0.5)));
    }
    for (label, (from, to)) in
        cases::GROWING.into_iter().flat_map(|label| GROWTH.map(|growth| (label, growth)))
    {
        let (Some(before), Some(after)) = (told.get(&(label, from)), told.get(&(label, to))) else {
            continue;
        };
        let line = serde_json::json!({
            "name": format!("placement decision, growth from {from} to {to} hosts, {label}"),
            "unit": "×",
            "value": after.1 / before.1, "p50": null, "p99": null, "max": null,
            "note": format!("target ≤ {}; of the medians, {:.1} of the least times", to / from, after.0 / before.0),
        });
        println!("{line}");
    }
}

/// Microseconds a VM or a decision, sorted.
fn measure(case: &Case, quick: bool) -> Vec<f64> {
    let state = case.state();
    let rounds = (200 / (case.vms / 100).max(1)).max(10);
    let rounds = if quick { rounds.div_ceil(10) } else { rounds };
    // The first decisions find memory cold, and the allocator learns from them what to keep.
    (0..rounds.clamp(2, 20)).for_each(|_| _ = decide(case, &state));
    let divisor = if case.per_decision { 1.0 } else { case.vms as f64 };
    let mut times: Vec<f64> = (0..rounds).map(|_| decide(case, &state) / divisor).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Microseconds of one decision, which is what it should be.
fn decide(case: &Case, state: &State) -> f64 {
    let start = processor_time_us();
    let commands = Placement.decide(state, &Facts::default());
    let elapsed = processor_time_us() - start;
    match (&case.expect, commands.as_slice()) {
        (Expect::AllPlaced, [Command::PlaceVms(place)]) => {
            assert_eq!(place.placements.len() as u64, case.vms)
        }
        (Expect::NewsOf(vms), news) => {
            let told = news.iter().map(|command| match command {
                Command::NoHost(no_host) => 1 + no_host.also.len(),
                other => panic!("{}: {other:?}", case.label),
            });
            assert_eq!(told.sum::<usize>(), *vms, "{}: what is recorded", case.label);
        }
        (Expect::AllPlaced, other) => panic!("{}: {} commands", case.label, other.len()),
    }
    elapsed
}

/// Of this thread.
fn processor_time_us() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every thread has one");
    time.tv_sec() as f64 * 1e6 + time.tv_nsec() as f64 / 1e3
}
