//! A run: one test with its parameters, from an empty folder to a report. The clients stop before anything is
//! judged, the cluster is healed before it is looked at, and whatever happens the logs are kept. What there is
//! to judge is written down first and judged from there, so that a verdict can be found again offline.

mod again;
mod append;
mod catch_up;
mod failover;
mod given_back;
mod lagging_host;
mod limits;
mod measure;
mod parameters;
mod register;
mod stale_read;
mod stored;
mod test;
mod vm_lifecycle;
mod wiped;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use self::again::{replay, shrink};
pub use self::parameters::Parameters;
pub use self::stored::check;
pub use self::test::Test;
use crate::checker::{Finding, Verdict};
use crate::harness::client::Endpoint;
use crate::harness::{Cluster, Hypervisor, Setup};
use crate::history::Journal;
use crate::nemesis::trouble::{self, Nature};
use crate::nemesis::{Extent, Nemesis, Progress, Unverified, kill, leader_restart};
use crate::report::{Counts, Report};
use crate::seed;
use crate::workload::Target;
use crate::workload::prober::Prober;

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Options {
    pub rounds: u64,
    pub seed: u64,
    pub nodes: usize,
    pub hypervisor: Hypervisor,
    /// Bugs the daemons are to have.
    pub plant: Option<String>,
    /// The run's folder is made below.
    pub store: PathBuf,
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

/// What every test looks at when the trouble is over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Aftermath {
    /// By name.
    nodes: Vec<String>,
    /// Daemons that ended although nobody asked.
    ended: Vec<String>,
    /// What the cluster left behind.
    left: Vec<String>,
    /// What was measured, in words.
    figures: Vec<String>,
    /// Longest time in which no probe was acknowledged.
    unavailable_ms: u64,
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
    let parameters = Parameters::of(test, options, trouble);
    let store = make_store(&options.store, &parameters.test)?;
    let journal = Arc::new(Journal::create(&store.join(stored::HISTORY), &parameters)?);
    // Only the program that has bugs on demand has a wall clock that can be set; without a bug it has none.
    let sets_clocks = trouble.is_some_and(|trouble| trouble.nemesis.sets_clocks());
    let setup = Setup {
        nodes: options.nodes,
        hypervisor: options.hypervisor,
        search_path: None,
        plant: options.plant.clone().or(sets_clocks.then(String::new)),
        clock_ppm: trouble.map_or(Vec::new(), |trouble| rates(trouble.nemesis, options.nodes)),
    };
    let start = async {
        if parameters.isolated { Cluster::start_isolated(&setup).await } else { Cluster::start(&setup).await }
    };
    let cluster = start.await.context("the cluster did not start")?;
    let mut context = Running { options: options.clone(), trouble, cluster, journal };
    let gathered = Box::pin(gather(test, &mut context)).await;
    context.cluster.save_logs(&store)?;
    let judged = match gathered {
        Ok(evidence) => {
            std::fs::write(store.join(stored::EVIDENCE), serde_json::to_vec(&evidence)?)?;
            stored::judge(&store)?.1
        }
        Err(error) => Judged { counts: stored::tally(&store)?, ..did_not_heal(&error) },
    };
    let mut report = Report {
        test: parameters.test,
        seed: options.seed,
        command: parameters.command,
        took_s: began.elapsed().as_secs_f64(),
        verdicts: judged.verdicts,
        figures: judged.figures,
        counts: judged.counts,
        store,
        kept: None,
    };
    if !report.is_valid() {
        context.cluster.scratch.keep();
        report.kept = Some(context.cluster.scratch.path().to_owned());
        report.figures.push(format!("the nodes' folders: {}", context.cluster.scratch.path().display()));
    }
    report.write()?;
    Ok(report)
}

fn rates(nemesis: Nemesis, nodes: usize) -> Vec<i64> {
    (0..nodes).map(|at| nemesis.clock_ppm(at)).collect()
}

/// It did not come back from a fault, or did not answer afterwards.
fn did_not_heal(error: &anyhow::Error) -> Judged {
    let why = format!("{error:#}");
    let finding = match error.chain().any(|cause| cause.is::<Unverified>()) {
        true => Finding::Unknown(why),
        false => Finding::Invalid(vec![why]),
    };
    let verdicts = vec![Verdict { checker: "heals", finding, figures: String::new() }];
    Judged { verdicts, ..Judged::default() }
}

/// Everything there is to judge, besides the history.
async fn gather(test: Test, context: &mut Running) -> Result<serde_json::Value> {
    let evidence = match test {
        Test::VmLifecycle => serde_json::to_value(vm_lifecycle::run(context).await?),
        Test::StaleRead => serde_json::to_value(stale_read::run(context).await?),
        Test::Register => serde_json::to_value(register::run(context).await?),
        Test::Append => serde_json::to_value(append::run(context).await?),
        Test::Limits => serde_json::to_value(limits::run(context).await?),
        Test::Failover => serde_json::to_value(failover::run(context).await?),
        Test::LaggingHost => serde_json::to_value(lagging_host::run(context).await?),
        Test::GivenBack => serde_json::to_value(given_back::run(context).await?),
        Test::CatchUp => serde_json::to_value(catch_up::run(context).await?),
        Test::Wiped => serde_json::to_value(wiped::run(context).await?),
    };
    Ok(evidence?)
}

fn make_store(below: &Path, test: &str) -> Result<PathBuf> {
    let below = below.join(test);
    std::fs::create_dir_all(&below).with_context(|| format!("cannot make {}", below.display()))?;
    let mut at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    loop {
        let store = below.join(at.to_string());
        match std::fs::create_dir(&store) {
            Ok(()) => return Ok(store.canonicalize()?),
            // Another run began in the same millisecond.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => at += 1,
            Err(error) => return Err(error).with_context(|| format!("cannot make {}", store.display())),
        }
    }
}

/// Faults a test is specified with, where no other trouble is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnFaults {
    Kills,
    LeaderRestarts,
}

impl Running {
    fn targets(&self) -> Vec<Target> {
        let over_the_network = self.trouble.is_some_and(|trouble| trouble.nemesis.moves_clients());
        let clients = self.cluster.network.as_ref().filter(|_| over_the_network);
        let clients = clients.map(|network| &*Box::leak(network.path(network.clients()).into_boxed_path()));
        let target = |daemon: &crate::harness::Daemon| Target {
            node: daemon.name.clone(),
            address: match clients {
                Some(namespace) => Endpoint::From(namespace, daemon.addresses.api),
                None => daemon.endpoint(),
            },
        };
        self.cluster.daemons.iter().map(target).collect()
    }

    fn nodes(&self) -> Vec<String> {
        self.cluster.daemons.iter().map(|daemon| daemon.name.clone()).collect()
    }

    fn progress(&self) -> Progress {
        Progress::new(self.journal.acknowledged())
    }

    /// Trouble while `clients` work; they have ended when this does.
    async fn endure(
        &mut self,
        own: OwnFaults,
        mut clients: JoinSet<()>,
        stop: CancellationToken,
    ) -> Result<trouble::Trouble> {
        let mut happened = trouble::Trouble::default();
        let done = match self.trouble {
            Some(of) => self.suffer(of, &mut happened).await,
            None => self.suffer_own(own, &mut happened).await,
        };
        stop.cancel();
        while clients.join_next().await.is_some() {}
        // Of a cluster that did not come back nothing more is asked.
        done.map(|()| happened)
    }

    async fn suffer_own(&mut self, own: OwnFaults, happened: &mut trouble::Trouble) -> Result<()> {
        let (rounds, progress) = (self.options.rounds, self.progress());
        let mut rng = seed::stream(self.options.seed, "nemesis", 0);
        let (cluster, journal, faults) = (&mut self.cluster, &self.journal, &mut happened.faults);
        happened.ended = match own {
            OwnFaults::Kills => kill::run(cluster, rounds, journal, progress, &mut rng, faults).await?,
            OwnFaults::LeaderRestarts => {
                leader_restart::run(cluster, rounds, journal, progress, &mut rng, faults).await?
            }
        };
        Ok(())
    }

    /// Makes this trouble.
    async fn suffer(&mut self, of: Trouble, happened: &mut trouble::Trouble) -> Result<()> {
        let (progress, targets) = (self.progress(), self.targets());
        let mut rng = seed::stream(self.options.seed, "nemesis", 0);
        let nature = Nature {
            cluster: &mut self.cluster,
            journal: &self.journal,
            progress,
            rng: &mut rng,
            hold: None,
        };
        let prober = Prober::start(targets);
        let done = trouble::run(nature, of.nemesis, of.extent, happened).await;
        happened.observed.unavailable = prober.longest_gap();
        done
    }

    /// Stops the daemons and looks at what is left.
    fn aftermath(&mut self, happened: trouble::Trouble) -> Aftermath {
        Aftermath {
            nodes: self.nodes(),
            left: self.cluster.shut_down(),
            figures: happened.observed.figures(),
            unavailable_ms: u64::try_from(happened.observed.unavailable.as_millis()).unwrap_or(u64::MAX),
            ended: happened.ended,
        }
    }
}
