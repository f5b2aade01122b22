//! A run: one test with its parameters, from an empty folder to a report. The clients stop before anything is
//! judged, the cluster is healed before it is looked at, and whatever happens the logs are kept.

mod stale_read;
mod vm_lifecycle;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::checker::{Finding, Verdict};
use crate::harness::{Cluster, Hypervisor, Setup};
use crate::history::{Fault, Journal, Operation};
use crate::nemesis::Progress;
use crate::report::Report;
use crate::workload::Target;

/// The tests there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// VMs are created and deleted while random nodes are killed.
    VmLifecycle,
    /// Every node is read while leaders are killed and come back at once.
    StaleRead,
}

impl Test {
    pub fn name(self) -> &'static str {
        match self {
            Self::VmLifecycle => "vm-lifecycle",
            Self::StaleRead => "stale-read",
        }
    }

    /// Faults that the project's promise is measured by.
    pub fn specified_rounds(self) -> u64 {
        match self {
            Self::VmLifecycle => 30,
            Self::StaleRead => 20,
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

/// What a test's own part works with.
struct Running {
    options: Options,
    cluster: Cluster,
    journal: Arc<Journal>,
}

/// What a test's own part gives back.
struct Judged {
    verdicts: Vec<Verdict>,
    figures: Vec<String>,
}

/// Runs a test.
///
/// # Errors
/// When the harness itself cannot work: no folder, no program, no cluster.
pub async fn run(test: Test, options: &Options) -> Result<Report> {
    let began = Instant::now();
    let command = format!(
        "cargo run -p holm-jepsen -- run --test {} --rounds {} --seed {} --nodes {} --hypervisor {}",
        test.name(),
        options.rounds,
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
    let cluster = Cluster::start(&setup).await.context("the cluster did not start")?;
    let mut context = Running { options: options.clone(), cluster, journal };
    let judged = match test {
        Test::VmLifecycle => vm_lifecycle::run(&mut context).await,
        Test::StaleRead => stale_read::run(&mut context).await,
    };
    context.cluster.save_logs(&store)?;
    let judged = judged.unwrap_or_else(|error| {
        // It did not come back from a fault, or did not answer afterwards.
        let because = format!("{error:#}");
        let finding = Finding::Invalid(vec![because]);
        let verdicts = vec![Verdict { checker: "heals", finding, figures: String::new() }];
        Judged { verdicts, figures: Vec::new() }
    });
    let report = Report {
        test: test.name(),
        seed: options.seed,
        command,
        took_s: began.elapsed().as_secs_f64(),
        verdicts: judged.verdicts,
        figures: judged.figures,
        store,
    };
    if !report.is_valid() {
        context.cluster.scratch.keep();
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
