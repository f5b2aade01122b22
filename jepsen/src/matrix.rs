//! A list of runs, and one table of what came of each. A run that proves nothing does not pass.

use std::fmt::Write as _;
use std::path::Path;

use clap::ValueEnum;

use crate::harness::Hypervisor;
use crate::harness::cluster::isolation_missing;
use crate::harness::real;
use crate::nemesis::{Extent, Nemesis};
use crate::report::Report;
use crate::run::{self, Options, Test, Trouble};

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Some five minutes: each kind of fault at least once.
    Ci,
    /// Some forty minutes: each workload under each kind of fault, five nodes, real guests.
    Nightly,
}

/// One run of the list.
#[derive(Clone, Copy, Debug)]
struct Entry {
    test: Test,
    /// None: the test brings its own faults.
    nemesis: Option<Nemesis>,
    rounds: u64,
    nodes: usize,
    hypervisor: Hypervisor,
}

const fn entry(test: Test, nemesis: Nemesis, rounds: u64) -> Entry {
    Entry { test, nemesis: Some(nemesis), rounds, nodes: 3, hypervisor: Hypervisor::Simulated }
}

const fn real(nemesis: Nemesis, rounds: u64) -> Entry {
    Entry { hypervisor: Hypervisor::CloudHypervisor, ..entry(Test::VmLifecycle, nemesis, rounds) }
}

const fn five(test: Test, nemesis: Nemesis, rounds: u64) -> Entry {
    Entry { nodes: 5, ..entry(test, nemesis, rounds) }
}

impl Profile {
    fn entries(self) -> Vec<Entry> {
        use Nemesis::{
            Kill, LeaderRestart, Loss, Mix, PartitionHalves, PartitionLeader, PartitionOneWay,
            PartitionPower, PartitionRing, Pause, PowerAll, PowerMost, PowerOne, Slow,
        };
        use Test::{StaleRead, VmLifecycle};
        let catch_up = Entry { nemesis: None, ..entry(Test::CatchUp, Kill, 2) };
        match self {
            Self::Ci => vec![
                entry(VmLifecycle, PartitionLeader, 2),
                entry(VmLifecycle, PowerAll, 3),
                entry(VmLifecycle, Mix, 4),
                entry(StaleRead, PartitionOneWay, 2),
                entry(StaleRead, Pause, 2),
                entry(StaleRead, Mix, 4),
                real(PowerOne, 2),
            ],
            Self::Nightly => {
                let every = [
                    Kill,
                    LeaderRestart,
                    PartitionHalves,
                    PartitionLeader,
                    PartitionOneWay,
                    PartitionRing,
                    Pause,
                    Loss,
                    Slow,
                    PowerOne,
                    PowerMost,
                    PowerAll,
                ];
                let of = |test| every.map(|nemesis| entry(test, nemesis, 4));
                let mut list = [of(VmLifecycle), of(StaleRead)].concat();
                list.extend([
                    entry(VmLifecycle, Mix, 20),
                    entry(StaleRead, Mix, 20),
                    five(VmLifecycle, Mix, 10),
                    five(StaleRead, PartitionHalves, 5),
                    five(VmLifecycle, PartitionRing, 5),
                    real(Mix, 12),
                    real(PowerAll, 4),
                    real(PartitionLeader, 4),
                    real(PartitionPower, 1),
                    catch_up,
                ]);
                list
            }
        }
    }
}

/// A row of the table.
struct Row {
    entry: Entry,
    seed: u64,
    outcome: Outcome,
}

enum Outcome {
    Ran(Box<Report>),
    Skipped(String),
    /// The harness did not get as far as a verdict.
    Failed(String),
}

/// Runs the list, prints the table, and says whether every run that was possible is valid.
pub async fn run(profile: Profile, first_seed: u64, store: &Path) -> bool {
    let mut rows = Vec::new();
    for (seed, entry) in (first_seed..).zip(profile.entries()) {
        let outcome = one(entry, seed, store).await;
        let row = Row { entry, seed, outcome };
        eprintln!("{}", line(&row));
        rows.push(row);
    }
    let mut table = String::new();
    let _ = writeln!(table, "{}", HEAD.map(|(name, width)| format!("{name:<width$}")).join("  "));
    for row in &rows {
        let _ = writeln!(table, "{}", line(row));
    }
    print!("{table}");
    for row in &rows {
        match &row.outcome {
            Outcome::Ran(report) if !report.is_valid() => print!("\n{report}"),
            Outcome::Failed(why) => println!("\n{} with seed {}: {why}", row.entry.test.name(), row.seed),
            Outcome::Ran(_) | Outcome::Skipped(_) => {}
        }
    }
    rows.iter().all(|row| match &row.outcome {
        Outcome::Ran(report) => report.is_valid(),
        Outcome::Skipped(_) => true,
        Outcome::Failed(_) => false,
    })
}

async fn one(entry: Entry, seed: u64, store: &Path) -> Outcome {
    let missing = isolation_missing();
    let real = (entry.hypervisor == Hypervisor::CloudHypervisor).then(real::obstacle).flatten();
    if let Some(why) = missing.or(real) {
        eprintln!("SKIPPED: {}: {why}", entry.test.name());
        return Outcome::Skipped(why);
    }
    let options = Options {
        rounds: entry.rounds,
        seed,
        nodes: entry.nodes,
        hypervisor: entry.hypervisor,
        plant: None,
        store: store.to_owned(),
    };
    let trouble = entry.nemesis.map(|nemesis| Trouble { nemesis, extent: Extent::Rounds(entry.rounds) });
    match run::run_under(entry.test, &options, trouble).await {
        Ok(report) => Outcome::Ran(Box::new(report)),
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

const HEAD: [(&str, usize); 12] = [
    ("TEST", 12),
    ("NEMESIS", 17),
    ("NODES", 5),
    ("VMS", 9),
    ("SEED", 6),
    ("TIME", 6),
    ("FAULTS", 6),
    ("OK", 6),
    ("FAIL", 5),
    ("INFO", 5),
    ("NO WRITES", 9),
    ("VERDICT", 7),
];

fn line(row: &Row) -> String {
    let Row { entry, seed, outcome } = row;
    let vms = if entry.hypervisor == Hypervisor::Simulated { "simulated" } else { "real" };
    let nemesis = entry.nemesis.map_or("its own".to_owned(), Nemesis::name);
    let mut cells =
        vec![entry.test.name(), nemesis, entry.nodes.to_string(), vms.to_owned(), seed.to_string()];
    match outcome {
        Outcome::Ran(report) => {
            let counts = report.counts;
            let verdict = match (report.is_valid(), report.is_invalid()) {
                (true, _) => "valid",
                (false, true) => "INVALID",
                (false, false) => "UNKNOWN",
            };
            cells.extend([
                format!("{:.0} s", report.took_s),
                counts.faults.to_string(),
                counts.ok.to_string(),
                counts.fail.to_string(),
                counts.info.to_string(),
                format!("{} ms", counts.unavailable_ms),
                verdict.to_owned(),
            ]);
        }
        Outcome::Skipped(why) => cells.push(format!("SKIPPED: {why}")),
        Outcome::Failed(_) => cells.push("UNKNOWN: the harness failed".to_owned()),
    }
    let cells = cells.into_iter().zip(HEAD).map(|(cell, (_, width))| format!("{cell:<width$}"));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}
