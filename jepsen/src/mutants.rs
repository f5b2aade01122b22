//! Known bugs, planted one at a time: a suite that cannot find them proves nothing by finding none. Each is run
//! under the workload and the faults that must bring it to light, up to three times with other seeds; the table
//! says which checker found it and how long that took. What the harness could not run counts as missed.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::harness::Hypervisor;
use crate::harness::cluster::isolation_missing;
use crate::harness::real;
use crate::nemesis::{Extent, Nemesis};
use crate::run::{self, Options, Test, Trouble};

/// Runs until a bug counts as missed.
const ATTEMPTS: u64 = 3;

/// One bug, and what must find it.
#[derive(Clone, Copy, Debug)]
struct Mutant {
    /// As the planted program knows it.
    name: &'static str,
    /// What else that program is told, so that a short run gets there.
    with: &'static [&'static str],
    what: &'static str,
    test: Test,
    /// None: the test brings its own faults.
    nemesis: Option<Nemesis>,
    rounds: u64,
    nodes: usize,
    hypervisor: Hypervisor,
    /// False: nothing is broken in the program, but what is assumed of its host.
    is_planted: bool,
}

const fn mutant(name: &'static str, what: &'static str, test: Test, nemesis: Nemesis, rounds: u64) -> Mutant {
    let hypervisor = Hypervisor::Simulated;
    let (with, nemesis) = (&[], Some(nemesis));
    Mutant { name, with, what, test, nemesis, rounds, nodes: 3, hypervisor, is_planted: true }
}

const SNAPSHOTS: &[&str] = &["snapshot-often"];

fn all() -> Vec<Mutant> {
    use Nemesis::{
        ClockJump, ClockRatesBeyond, Kill, LeaderRestart, LeaseFlap, LeaseKill, LeasePartition,
        LeasePartitionPower, PartitionLeader, Pause, PowerAll,
    };
    use Test::{Append, GivenBack, LaggingHost, Limits, Register, StaleRead, VmLifecycle, Wiped};
    let real = |of: Mutant| Mutant { hypervisor: Hypervisor::CloudHypervisor, ..of };
    let snapshots = |of: Mutant| Mutant { with: SNAPSHOTS, ..of };
    let failover = |name, what, nemesis| mutant(name, what, Test::Failover, nemesis, 2);
    let own = |of: Mutant| Mutant { nemesis: None, ..of };
    vec![
        mutant("skip-fsync", "nothing is made durable", Register, PowerAll, 2),
        mutant("whole-values", "long values unsplit in the store", Limits, PowerAll, 4),
        own(mutant("recreate-store", "a lost store begins anew under its old node id", Wiped, Kill, 1)),
        snapshots(mutant("forget-window", "no dedup window in snapshots", VmLifecycle, Kill, 6)),
        snapshots(mutant(
            "applied-not-atomic",
            "state and last applied entry of two moments",
            VmLifecycle,
            Kill,
            4,
        )),
        snapshots(mutant("renumber-events", "events renumbered by a restore", VmLifecycle, Kill, 4)),
        mutant("local-read", "a replica's own state served as linearizable", Register, Pause, 2),
        mutant(
            "read-without-quorum",
            "a leader reads without asking a quorum",
            StaleRead,
            PartitionLeader,
            3,
        ),
        mutant(
            "no-begin-leadership",
            "a restarted leader serves before its BeginLeadership",
            StaleRead,
            LeaderRestart,
            6,
        ),
        mutant("unknown-as-refused", "an unknown outcome told as refused", Append, LeaderRestart, 12),
        mutant("impure-apply", "apply depends on the process", VmLifecycle, Kill, 1),
        mutant("no-dedup", "a repeated key acts again", VmLifecycle, Kill, 3),
        mutant("claim-later", "placed first, claimed later", Limits, Kill, 2),
        mutant("leak-claim", "a claim's end frees nothing", VmLifecycle, Kill, 1),
        mutant("resurrect-delete", "a late report brings a deleted VM back", VmLifecycle, LeaderRestart, 4),
        mutant("quota-at-leader", "the quota is checked by the leader only", Limits, Kill, 2),
        mutant("few-ids", "ids of VMs are drawn from a handful", VmLifecycle, Kill, 2),
        mutant("stamps-by-wall-clock", "time-outs go by a wall clock that is set", Limits, ClockJump, 5),
        real(failover(
            "lease-without-quorum",
            "a leader grants leases without asking a quorum",
            LeasePartition,
        )),
        real(failover(
            "no-wait-after-election",
            "a new leader does not wait for earlier leases",
            LeasePartition,
        )),
        real(failover("down-is-fenced", "placed elsewhere without a committed fence", LeasePartition)),
        real(failover("shim-ignores-lease", "the lease is kept by the daemon, not by the shim", LeaseKill)),
        real(failover("start-without-lease", "a failover VM starts without a lease", LeasePartitionPower)),
        real(failover("grant-racing-fence", "a lease is given while its node is being fenced", LeaseFlap)),
        real(own(mutant(
            "mark-after-proposal",
            "given back first, marked released later",
            GivenBack,
            Kill,
            2,
        ))),
        real(mutant(
            "wrong-epoch",
            "a VM starts at an epoch that nothing was placed at",
            VmLifecycle,
            Kill,
            1,
        )),
        real(own(mutant("trust-lagging-replica", "a host obeys a replica that lags", LaggingHost, Kill, 6))),
        real(mutant("restart-touches-vms", "a daemon begins with ending what runs", VmLifecycle, Kill, 5)),
        real(Mutant {
            is_planted: false,
            ..failover("clock-rates-beyond", "clocks further apart than is assumed", ClockRatesBeyond)
        }),
    ]
}

/// A line of the table.
struct Row {
    mutant: Mutant,
    found: Found,
}

enum Found {
    By { checkers: String, seconds: f64, runs: u64 },
    Missed,
    Skipped(String),
}

/// Runs them, prints the table, and says whether every bug that could be run was found.
///
/// # Errors
/// When there is no bug of a name in `only`.
pub async fn run(only: &[String], seed: u64, store: &Path) -> Result<bool> {
    let all = all();
    if let Some(unknown) = only.iter().find(|name| !all.iter().any(|mutant| mutant.name == **name)) {
        let known: Vec<_> = all.iter().map(|mutant| mutant.name).collect();
        bail!("there is no bug `{unknown}`; there are {}", known.join(", "));
    }
    let chosen =
        all.into_iter().filter(|mutant| only.is_empty() || only.iter().any(|name| name == mutant.name));
    let mut rows = Vec::new();
    for mutant in chosen {
        let found = Box::pin(one(&mutant, seed, store)).await;
        let row = Row { mutant, found };
        eprintln!("{}", line(&row));
        rows.push(row);
    }
    let mut table = String::from(
        "| bug | what is broken | test, faults | found by | after |\n| --- | --- | --- | --- | --- |\n",
    );
    for row in &rows {
        let _ = writeln!(table, "{}", line(row));
    }
    print!("{table}");
    Ok(rows.iter().all(|row| !matches!(row.found, Found::Missed)))
}

async fn one(mutant: &Mutant, seed: u64, store: &Path) -> Found {
    let isolated = mutant.nemesis.is_some() || mutant.test.is_isolated();
    let missing = isolated.then(isolation_missing).flatten();
    let real = (mutant.hypervisor == Hypervisor::CloudHypervisor).then(real::obstacle).flatten();
    if let Some(why) = missing.or(real) {
        eprintln!("SKIPPED: {}: {why}", mutant.name);
        return Found::Skipped(why);
    }
    let began = Instant::now();
    for attempt in 0..ATTEMPTS {
        let options = Options {
            rounds: mutant.rounds,
            seed: seed + attempt,
            nodes: mutant.nodes,
            hypervisor: mutant.hypervisor,
            plant: mutant.is_planted.then(|| [&[mutant.name], mutant.with].concat().join(",")),
            store: store.to_owned(),
        };
        let extent = Extent::Rounds(mutant.rounds);
        let trouble = mutant.nemesis.map(|nemesis| Trouble { nemesis, extent });
        match run::run_under(mutant.test, &options, trouble).await {
            Ok(report) if report.is_invalid() => {
                // The bug is known: nobody will look into the nodes' folders.
                if let Some(kept) = &report.kept {
                    let _ = std::fs::remove_dir_all(kept);
                }
                let checkers: Vec<_> = report.broken().map(|verdict| verdict.checker).collect();
                let seconds = began.elapsed().as_secs_f64();
                return Found::By { checkers: checkers.join(", "), seconds, runs: attempt + 1 };
            }
            Ok(report) => eprintln!("{}: not found with seed {}\n{report}", mutant.name, options.seed),
            Err(error) => eprintln!("{}: the harness failed: {error:#}", mutant.name),
        }
    }
    Found::Missed
}

fn line(row: &Row) -> String {
    let Mutant { name, what, test, nemesis, nodes, hypervisor, .. } = row.mutant;
    let faults = nemesis.map_or("its own".to_owned(), Nemesis::name);
    let real = if hypervisor == Hypervisor::CloudHypervisor { ", real guests" } else { "" };
    let five = if nodes == 3 { String::new() } else { format!(", {nodes} nodes") };
    let (by, after) = match &row.found {
        Found::By { checkers, seconds, runs: 1 } => (checkers.clone(), format!("{seconds:.0} s")),
        Found::By { checkers, seconds, runs } => (checkers.clone(), format!("{seconds:.0} s ({runs} runs)")),
        Found::Missed => ("**MISSED**".to_owned(), format!("{ATTEMPTS} runs")),
        Found::Skipped(why) => (format!("skipped: {why}"), String::new()),
    };
    format!("| `{name}` | {what} | {}, {faults}{real}{five} | {by} | {after} |", test.name())
}
