//! A list of runs, and one table of what came of each. A run that proves nothing does not pass: it is made once more,
//! with another seed, and then has to prove something.

use std::collections::BTreeMap;
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
    /// Under ten minutes: each workload, and each family of faults at least once.
    Ci,
    /// Over two hours: each workload under each kind of fault, five nodes, real guests.
    Nightly,
    /// Over four hours: few workloads, each for long, under everything at once.
    Soak,
}

/// One run of the list.
#[derive(Clone, Copy, Debug)]
struct Entry {
    test: Test,
    /// None: the test brings its own faults.
    nemesis: Option<Nemesis>,
    extent: Extent,
    nodes: usize,
    hypervisor: Hypervisor,
}

const fn entry(test: Test, nemesis: Nemesis, rounds: u64) -> Entry {
    let extent = Extent::Rounds(rounds);
    Entry { test, nemesis: Some(nemesis), extent, nodes: 3, hypervisor: Hypervisor::Simulated }
}

/// A test that brings its own faults.
const fn own(test: Test, rounds: u64) -> Entry {
    Entry { nemesis: None, ..entry(test, Nemesis::Kill, rounds) }
}

/// On real guests.
const fn real(of: Entry) -> Entry {
    Entry { hypervisor: Hypervisor::CloudHypervisor, ..of }
}

const fn failover(nemesis: Nemesis, rounds: u64) -> Entry {
    real(entry(Test::Failover, nemesis, rounds))
}

const fn five(of: Entry) -> Entry {
    Entry { nodes: 5, ..of }
}

const fn long(test: Test, nemesis: Nemesis, seconds: u64) -> Entry {
    Entry { extent: Extent::Seconds(seconds), ..entry(test, nemesis, 1) }
}

impl Entry {
    fn faults(&self) -> String {
        self.nemesis.map_or("its own".to_owned(), Nemesis::name)
    }
}

impl Profile {
    fn entries(self) -> Vec<Entry> {
        match self {
            Self::Ci => ci(),
            Self::Nightly => nightly(),
            Self::Soak => soak(),
        }
    }
}

fn ci() -> Vec<Entry> {
    use Nemesis::{
        ClockJump, DiskHung, LeasePartition, Mix, PartitionClients, PartitionOneWay, Pause, PowerAll,
        PowerOne, Replace, Rolling,
    };
    use Test::{Append, GivenBack, Limits, Register, StaleRead, VmLifecycle, Wiped};
    vec![
        entry(VmLifecycle, PowerAll, 2),
        entry(VmLifecycle, Mix, 2),
        entry(StaleRead, PartitionOneWay, 2),
        entry(StaleRead, Pause, 1),
        entry(Register, PartitionClients, 2),
        entry(Register, DiskHung, 1),
        entry(Register, Replace, 1),
        entry(Append, PowerAll, 1),
        entry(Append, Rolling, 1),
        entry(Limits, Mix, 2),
        entry(Limits, ClockJump, 1),
        own(Wiped, 1),
        // Not every time does the replica lag, and one that does is enough.
        real(own(GivenBack, 3)),
        real(entry(VmLifecycle, PowerOne, 1)),
        failover(LeasePartition, 1),
    ]
}

/// Faults that spare VMs.
const SPARING: [Nemesis; 14] = [
    Nemesis::Kill,
    Nemesis::LeaderRestart,
    Nemesis::PartitionHalves,
    Nemesis::PartitionLeader,
    Nemesis::PartitionOneWay,
    Nemesis::PartitionRing,
    Nemesis::Pause,
    Nemesis::Loss,
    Nemesis::Slow,
    Nemesis::PowerOne,
    Nemesis::PowerMost,
    Nemesis::PowerAll,
    Nemesis::Rolling,
    Nemesis::DiskSlow,
];

/// Faults after which some host is not what it was.
const HARSH: [Nemesis; 5] =
    [Nemesis::DiskFull, Nemesis::DiskHung, Nemesis::Damage, Nemesis::Truncate, Nemesis::Replace];

fn nightly() -> Vec<Entry> {
    use Nemesis::{
        ClockJump, ClockRates, Failover, Kill, KillShim, KillVmm, LeaderRestart, LeaseFlap, LeaseKill,
        LeaseKillHost, LeaseOneWay, LeasePartition, LeasePartitionPower, LeasePause, LeasePower, Mix,
        PartitionBridge, PartitionClients, PartitionHalves, PartitionLeader, PartitionPower, PartitionRing,
        PauseHost, PauseVmm, PowerAll, Replace, Rolling,
    };
    use Test::{Append, CatchUp, GivenBack, LaggingHost, Limits, Register, StaleRead, VmLifecycle, Wiped};
    let of = |test| SPARING.map(|nemesis| entry(test, nemesis, 4)).to_vec();
    let harsh = |test| HARSH.map(|nemesis| entry(test, nemesis, 3)).to_vec();
    let mut list = [of(VmLifecycle), of(StaleRead), of(Register), of(Append)].concat();
    list.extend([harsh(Register), harsh(Append)].concat());
    list.extend([VmLifecycle, StaleRead, Register, Append].map(|test| entry(test, PartitionClients, 4)));
    list.extend([Mix, Kill, PowerAll, PartitionLeader, ClockJump].map(|nemesis| entry(Limits, nemesis, 6)));
    list.push(entry(Limits, Replace, 3));
    list.extend(
        [
            LeasePause,
            LeasePartition,
            LeaseOneWay,
            LeaseKill,
            LeaseKillHost,
            LeasePower,
            LeasePartitionPower,
            LeaseFlap,
            ClockRates,
        ]
        .map(|nemesis| failover(nemesis, 4)),
    );
    list.extend([KillShim, KillVmm, PauseVmm, LeaderRestart, Rolling].map(|nemesis| failover(nemesis, 6)));
    list.extend([
        failover(Failover, 20),
        entry(VmLifecycle, Mix, 20),
        entry(StaleRead, Mix, 20),
        five(entry(VmLifecycle, Mix, 10)),
        five(entry(Register, PartitionBridge, 4)),
        five(entry(Append, Mix, 10)),
        five(entry(StaleRead, PartitionHalves, 5)),
        five(entry(VmLifecycle, PartitionRing, 5)),
        real(entry(VmLifecycle, Mix, 12)),
        real(entry(VmLifecycle, PowerAll, 4)),
        real(entry(VmLifecycle, PartitionLeader, 4)),
        real(entry(VmLifecycle, PartitionPower, 1)),
        real(entry(VmLifecycle, PauseHost, 6)),
        real(own(LaggingHost, 6)),
        real(own(GivenBack, 4)),
        own(Wiped, 4),
        own(CatchUp, 2),
    ]);
    list
}

fn soak() -> Vec<Entry> {
    use Nemesis::{Failover, Mix};
    use Test::{Append, Limits, Register, StaleRead, VmLifecycle};
    vec![
        long(VmLifecycle, Mix, 2_400),
        real(long(VmLifecycle, Mix, 2_400)),
        real(long(Test::Failover, Failover, 3_600)),
        long(Register, Mix, 1_800),
        five(long(Append, Mix, 1_800)),
        long(StaleRead, Mix, 1_800),
        long(Limits, Mix, 1_200),
    ]
}

/// A row of the table.
struct Row {
    entry: Entry,
    seed: u64,
    outcome: Outcome,
}

impl Row {
    fn is_valid(&self) -> bool {
        matches!(&self.outcome, Outcome::Ran(report) if report.is_valid())
    }

    /// Neither was a rule broken, nor can it be said that none was. One that did not get as far may have met a bug: a
    /// cluster that does not form.
    fn proved_nothing(&self) -> bool {
        matches!(&self.outcome, Outcome::Ran(report) if !report.is_valid() && !report.is_invalid())
    }
}

enum Outcome {
    Ran(Box<Report>),
    Skipped(String),
    /// The harness did not get as far as a verdict.
    Failed(String),
}

/// From the seed of a run that proved nothing to that of the next try at it.
const AGAIN: u64 = 1_000_000;

/// Runs the list, prints the table, and says whether every run that was possible is valid.
pub async fn run(profile: Profile, first_seed: u64, store: &Path) -> bool {
    let mut rows = Vec::new();
    for (seed, entry) in (first_seed..).zip(profile.entries()) {
        for seed in [seed, seed + AGAIN] {
            let row = Row { entry, seed, outcome: one(entry, seed, store).await };
            eprintln!("{}", line(&row));
            let proved_nothing = row.proved_nothing();
            rows.push(row);
            if !proved_nothing {
                break;
            }
        }
    }
    let mut table = String::new();
    let _ = writeln!(table, "{}", HEAD.map(|(name, width)| format!("{name:<width$}")).join("  "));
    for row in &rows {
        let _ = writeln!(table, "{}", line(row));
    }
    print!("{table}");
    print!("{}", not_run(&rows));
    for row in &rows {
        match &row.outcome {
            Outcome::Ran(report) if !report.is_valid() => print!("\n{report}"),
            Outcome::Failed(why) => println!("\n{} with seed {}: {why}", row.entry.test.name(), row.seed),
            Outcome::Ran(_) | Outcome::Skipped(_) => {}
        }
    }
    let passes = |row: &Row| matches!(&row.outcome, Outcome::Skipped(_)) || row.is_valid();
    let again = |row: &Row| rows.iter().any(|other| other.seed == row.seed + AGAIN && passes(other));
    rows.iter().all(|row| passes(row) || (row.proved_nothing() && again(row)))
}

/// What the table does not prove: a line for each reason.
fn not_run(rows: &[Row]) -> String {
    let mut missing = BTreeMap::<&str, Vec<String>>::new();
    for row in rows {
        if let Outcome::Skipped(why) = &row.outcome {
            missing.entry(why).or_default().push(format!("{} {}", row.entry.test.name(), row.entry.faults()));
        }
    }
    let lines = missing.iter().map(|(why, runs)| {
        format!("\n{} of {} runs were not made ({why}): {}\n", runs.len(), rows.len(), runs.join(", "))
    });
    lines.collect()
}

async fn one(entry: Entry, seed: u64, store: &Path) -> Outcome {
    let missing = isolation_missing();
    let real = (entry.hypervisor == Hypervisor::CloudHypervisor).then(real::obstacle).flatten();
    if let Some(why) = missing.or(real) {
        eprintln!("SKIPPED: {}: {why}", entry.test.name());
        return Outcome::Skipped(why);
    }
    let rounds = match entry.extent {
        Extent::Rounds(rounds) => rounds,
        Extent::Seconds(_) => 1,
    };
    let options = Options {
        rounds,
        seed,
        nodes: entry.nodes,
        hypervisor: entry.hypervisor,
        plant: None,
        store: store.to_owned(),
    };
    let trouble = entry.nemesis.map(|nemesis| Trouble { nemesis, extent: entry.extent });
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
    let mut cells =
        vec![entry.test.name(), entry.faults(), entry.nodes.to_string(), vms.to_owned(), seed.to_string()];
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
