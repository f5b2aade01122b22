//! `holm-jepsen`: runs a test against a real cluster and prints its verdicts.
//!
//! Exit codes: 0 valid, 1 invalid, 2 usage, 3 nothing proved (unknown, or the harness failed).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use holm_jepsen::harness::Hypervisor;
use holm_jepsen::harness::cluster::isolation_missing;
use holm_jepsen::matrix::{self, Profile};
use holm_jepsen::nemesis::{Extent, Nemesis};
use holm_jepsen::run::{self, Options, Test, Trouble};

/// Real daemons, real faults, and checkers that do not take the daemon's word.
#[derive(Debug, Parser)]
#[command(name = "holm-jepsen", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one test.
    Run(Run),
    /// Run a list of tests, each under some faults, and print a table.
    Matrix(Matrix),
}

#[derive(Debug, clap::Args)]
struct Matrix {
    #[arg(long, value_enum)]
    profile: Profile,
    /// Of the first run; each further one has the next [default: a random one, printed].
    #[arg(long)]
    seed: Option<u64>,
    /// Where the runs' folders are made.
    #[arg(long, default_value = "target/jepsen", value_name = "DIR")]
    store: PathBuf,
}

#[derive(Debug, clap::Args)]
struct Run {
    #[arg(long, value_enum)]
    test: TestName,
    /// Other faults than the test's own, on nodes with networks and disks of their own; needs root.
    #[arg(long, value_enum)]
    nemesis: Option<Nemesis>,
    /// Faults [default: what the test is specified with].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Goes on for this long instead; at least one fault.
    #[arg(long, conflicts_with = "rounds", requires = "nemesis")]
    seconds: Option<u64>,
    /// Fixes every choice of clients and nemesis [default: a random one, printed].
    #[arg(long)]
    seed: Option<u64>,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=9))]
    nodes: u8,
    #[arg(long, value_enum, default_value_t = HypervisorName::Simulated)]
    hypervisor: HypervisorName,
    /// Where the run's folder with history, logs and verdicts is made.
    #[arg(long, default_value = "target/jepsen", value_name = "DIR")]
    store: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TestName {
    /// Create and delete VMs while random nodes are killed.
    VmLifecycle,
    /// Read through every node while leaders are killed and come back at once.
    StaleRead,
    /// Write so much while a node is away that it needs a snapshot when it is back; brings its own faults.
    CatchUp,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HypervisorName {
    Simulated,
    CloudHypervisor,
}

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("holm-jepsen: {error}");
            return ExitCode::from(3);
        }
    };
    let work = async {
        match Cli::parse().command {
            Command::Run(args) => one(args).await,
            Command::Matrix(args) => {
                let seed = args.seed.unwrap_or_else(|| u64::from(rand::random::<u16>()));
                ExitCode::from(u8::from(!matrix::run(args.profile, seed, &args.store).await))
            }
        }
    };
    // On Ctrl-C the run is dropped, and with it everything it started.
    runtime.block_on(async {
        tokio::select! {
            // First, so that signals are caught before anything is there to be cleaned up.
            biased;
            () = interrupted() => {
                eprintln!("holm-jepsen: interrupted");
                ExitCode::from(3)
            }
            code = work => code,
        }
    })
}

/// SIGINT or SIGTERM.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

async fn one(args: Run) -> ExitCode {
    let test = match args.test {
        TestName::VmLifecycle => Test::VmLifecycle,
        TestName::StaleRead => Test::StaleRead,
        TestName::CatchUp => Test::CatchUp,
    };
    let options = Options {
        rounds: args.rounds.unwrap_or(test.specified_rounds()),
        seed: args.seed.unwrap_or_else(rand::random),
        nodes: usize::from(args.nodes),
        hypervisor: match args.hypervisor {
            HypervisorName::Simulated => Hypervisor::Simulated,
            HypervisorName::CloudHypervisor => Hypervisor::CloudHypervisor,
        },
        store: args.store,
    };
    let trouble = args.nemesis.map(|nemesis| Trouble {
        nemesis,
        extent: args.seconds.map_or(Extent::Rounds(options.rounds), Extent::Seconds),
    });
    if (trouble.is_some() || test.is_isolated())
        && let Some(why) = isolation_missing()
    {
        eprintln!("SKIPPED: {}: {why}", test.name());
        return ExitCode::from(3);
    }
    eprintln!("{} with seed {}", test.name(), options.seed);
    match run::run_under(test, &options, trouble).await {
        Ok(report) => {
            print!("{report}");
            match (report.is_valid(), report.is_invalid()) {
                (true, _) => ExitCode::SUCCESS,
                (false, true) => ExitCode::from(1),
                (false, false) => ExitCode::from(3),
            }
        }
        Err(error) => {
            eprintln!("holm-jepsen: {error:#}");
            ExitCode::from(3)
        }
    }
}
