//! A run: one test with its parameters, from an empty folder to a report. The clients stop before anything is
//! judged, the cluster is healed before it is looked at, and whatever happens the logs are kept.

mod catch_up;
mod stale_read;
mod vm_lifecycle;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::checker::{Finding, Verdict};
use crate::harness::{Cluster, Hypervisor, Setup};
use crate::history::{Fault, Journal, Operation, Outcome};
use crate::nemesis::trouble::{self, Nature};
use crate::nemesis::{Extent, Nemesis, Progress};
use crate::report::{Counts, Report};
use crate::seed;
use crate::workload::Target;
use crate::workload::prober::Prober;

/// The tests there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// VMs are created and deleted while random nodes are killed.
    VmLifecycle,
    /// Every node is read while leaders are killed and come back at once.
    StaleRead,
    /// A node is away until the others have purged the log that it would need.
    CatchUp,
}

impl Test {
    pub fn name(self) -> &'static str {
        match self {
            Self::VmLifecycle => "vm-lifecycle",
            Self::StaleRead => "stale-read",
            Self::CatchUp => "catch-up",
        }
    }

    /// Whether it always needs nodes with networks and disks of their own.
    pub fn is_isolated(self) -> bool {
        self == Self::CatchUp
    }

    /// Faults that the project's promise is measured by.
    pub fn specified_rounds(self) -> u64 {
        match self {
            Self::VmLifecycle => 30,
            Self::StaleRead => 20,
            Self::CatchUp => 2,
        }
    }
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Options {
    pub rounds: u64,
    pub seed: u64,
    pub nodes: usize,
    pub hypervisor: Hypervisor,
    /// The run's folder is made below.
    pub store: PathBuf,
}

#[derive(Serialize)]
struct Parameters<'a> {
    test: &'a str,
    command: &'a str,
    seed: u64,
    rounds: u64,
    nodes: usize,
    hypervisor: &'a str,
}

/// Trouble other than the test's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub nemesis: Nemesis,
    pub extent: Extent,
}

/// What a test's own part works with.
struct Running {
    options: Options,
    trouble: Option<Trouble>,
    cluster: Cluster,
    journal: Arc<Journal>,
}

/// What a test's own part gives back.
#[derive(Default)]
struct Judged {
    verdicts: Vec<Verdict>,
    figures: Vec<String>,
    counts: Counts,
}

/// Runs a test with the faults it is specified with, on loopback.
///
/// # Errors
/// When the harness itself cannot work: no folder, no program, no cluster.
pub async fn run(test: Test, options: &Options) -> Result<Report> {
    run_under(test, options, None).await
}

/// Runs a test under other trouble, on nodes with networks and disks of their own.
///
/// # Errors
/// As [`run`], and where there can be no such nodes.
pub async fn run_under(test: Test, options: &Options, trouble: Option<Trouble>) -> Result<Report> {
    let began = Instant::now();
    let extent = match trouble {
        None => format!("--rounds {}", options.rounds),
        Some(Trouble { nemesis, extent: Extent::Rounds(rounds) }) => {
            format!("--nemesis {} --rounds {rounds}", nemesis.name())
        }
        Some(Trouble { nemesis, extent: Extent::Seconds(seconds) }) => {
            format!("--nemesis {} --seconds {seconds}", nemesis.name())
        }
    };
    let command = format!(
        "cargo run -p holm-jepsen -- run --test {} {extent} --seed {} --nodes {} --hypervisor {}",
        test.name(),
        options.seed,
        options.nodes,
        options.hypervisor.as_str()
    );
    let store = make_store(&options.store, test)?;
    let parameters = Parameters {
        test: test.name(),
        command: &command,
        seed: options.seed,
        rounds: options.rounds,
        nodes: options.nodes,
        hypervisor: options.hypervisor.as_str(),
    };
    let journal = Arc::new(Journal::create(&store.join("history.jsonl"), &parameters)?);
    let setup = Setup { nodes: options.nodes, hypervisor: options.hypervisor, search_path: None };
    let isolated = trouble.is_some() || test.is_isolated();
    let cluster = if isolated { Cluster::start_isolated(&setup).await } else { Cluster::start(&setup).await };
    let cluster = cluster.context("the cluster did not start")?;
    let mut context = Running { options: options.clone(), trouble, cluster, journal };
    let judged = match test {
        Test::VmLifecycle => vm_lifecycle::run(&mut context).await,
        Test::StaleRead => stale_read::run(&mut context).await,
        Test::CatchUp => catch_up::run(&mut context).await,
    };
    context.cluster.save_logs(&store)?;
    let judged = judged.unwrap_or_else(|error| {
        // It did not come back from a fault, or did not answer afterwards.
        let because = format!("{error:#}");
        let finding = Finding::Invalid(vec![because]);
        let verdicts = vec![Verdict { checker: "heals", finding, figures: String::new() }];
        Judged { verdicts, ..Judged::default() }
    });
    let mut report = Report {
        test: test.name(),
        seed: options.seed,
        command,
        took_s: began.elapsed().as_secs_f64(),
        verdicts: judged.verdicts,
        figures: judged.figures,
        counts: judged.counts,
        store,
    };
    if !report.is_valid() {
        context.cluster.scratch.keep();
        report.figures.push(format!("the nodes' folders: {}", context.cluster.scratch.path().display()));
    }
    let json = serde_json::to_string_pretty(&report)?;
    std::fs::write(report.store.join("report.json"), json)?;
    Ok(report)
}

fn make_store(below: &Path, test: Test) -> Result<PathBuf> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let store = below.join(test.name()).join(now.to_string());
    std::fs::create_dir_all(&store).with_context(|| format!("cannot make {}", store.display()))?;
    Ok(store.canonicalize()?)
}

impl Running {
    fn targets(&self) -> Vec<Target> {
        let target = |daemon: &crate::harness::Daemon| Target {
            node: daemon.name.clone(),
            address: daemon.endpoint(),
        };
        self.cluster.daemons.iter().map(target).collect()
    }

    fn nodes(&self) -> Vec<String> {
        self.cluster.daemons.iter().map(|daemon| daemon.name.clone()).collect()
    }

    fn progress(&self) -> Progress {
        Progress::new(self.journal.acknowledged())
    }

    /// Faults there should have been.
    fn expected(&self, happened: &[Fault]) -> u64 {
        match self.trouble.map(|trouble| trouble.extent) {
            None => self.options.rounds,
            Some(Extent::Rounds(rounds)) => rounds,
            Some(Extent::Seconds(_)) => happened.len().max(1) as u64,
        }
    }

    /// Makes this trouble.
    async fn suffer(&mut self, of: Trouble, happened: &mut trouble::Trouble) -> Result<()> {
        let (progress, targets) = (self.progress(), self.targets());
        let mut rng = seed::stream(self.options.seed, "nemesis", 0);
        let nature = Nature { cluster: &mut self.cluster, journal: &self.journal, progress, rng: &mut rng };
        let prober = Prober::start(targets);
        let done = trouble::run(nature, of.nemesis, of.extent, happened).await;
        happened.observed.unavailable = prober.longest_gap();
        done
    }
}

/// What a matrix shows of a run.
fn counts<C, A>(faults: &[Fault], operations: &[Operation<C, A>], unavailable: Duration) -> Counts {
    let unavailable_ms = u64::try_from(unavailable.as_millis()).unwrap_or(u64::MAX);
    let mut counts = Counts { faults: faults.len(), unavailable_ms, ..Counts::default() };
    for operation in operations {
        match operation.outcome {
            Outcome::Ok(_) => counts.ok += 1,
            Outcome::Fail(_) => counts.fail += 1,
            Outcome::Info(_) => counts.info += 1,
        }
    }
    counts
}

/// From each fault to the first acknowledgement of a write that was sent after it.
fn unavailability<C, A>(
    what: &str,
    faults: impl Iterator<Item = Fault>,
    operations: &[Operation<C, A>],
    is_write: impl Fn(&C) -> bool,
) -> Option<String> {
    let written = |after: u64| {
        let acknowledged = operations
            .iter()
            .filter(|op| op.invoked_ns > after && op.outcome.ok().is_some() && is_write(&op.call));
        acknowledged.map(|op| op.completed_ns).min()
    };
    let mut gaps: Vec<_> = faults
        .filter_map(|fault| Some(Duration::from_nanos(written(fault.began_ns)? - fault.began_ns)))
        .collect();
    gaps.sort();
    let (median, longest) = (gaps.get(gaps.len() / 2)?, gaps.last()?);
    Some(format!(
        "writes after {what}: acknowledged again within {} ms at the median, {} ms at most ({} times)",
        median.as_millis(),
        longest.as_millis(),
        gaps.len()
    ))
}
