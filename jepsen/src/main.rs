//! `holm-jepsen`: runs a test against a real cluster and prints its verdicts.
//!
//! Exit codes: 0 valid, 1 invalid, 2 usage, 3 nothing proved (unknown, or the harness failed).

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use holm_jepsen::harness::Hypervisor;
use holm_jepsen::harness::cluster::isolation_missing;
use holm_jepsen::matrix::{self, Profile};
use holm_jepsen::mutants;
use holm_jepsen::nemesis::{Extent, Nemesis};
use holm_jepsen::report::{Report, serve};
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
    /// Run daemons with known bugs, and print which checker finds each and in what time.
    Mutants(Mutants),
    /// Judge a run again, from the files in its folder alone.
    Check {
        /// The run's folder.
        folder: PathBuf,
    },
    /// Run again what a run's folder says, with the same choices.
    Replay {
        /// The run's folder.
        folder: PathBuf,
    },
    /// Find the fewest faults under which a run's seed still breaks a rule.
    Shrink {
        /// The run's folder.
        folder: PathBuf,
    },
    /// Show runs in a browser, on this host only.
    Serve {
        /// Where the runs' folders are.
        #[arg(long, default_value = "target/jepsen", value_name = "DIR")]
        store: PathBuf,
        /// 0 takes any.
        #[arg(long, default_value_t = 7480)]
        port: u16,
    },
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
struct Mutants {
    /// This one only; may be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
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
    test: Test,
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
    /// Bugs the daemons are to have, by name, with a comma between.
    #[arg(long, value_name = "NAMES")]
    plant: Option<String>,
    /// Where the run's folder with history, logs and verdicts is made.
    #[arg(long, default_value = "target/jepsen", value_name = "DIR")]
    store: PathBuf,
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
    let command = Cli::parse().command;
    // On Ctrl-C the run is dropped, and with it everything it started.
    runtime.block_on(async {
        tokio::select! {
            // First, so that signals are caught before anything is there to be cleaned up.
            biased;
            () = interrupted() => {
                eprintln!("holm-jepsen: interrupted");
                ExitCode::from(3)
            }
            code = perform(command) => code,
        }
    })
}

async fn perform(command: Command) -> ExitCode {
    let some = |seed: Option<u64>| seed.unwrap_or_else(|| u64::from(rand::random::<u16>()));
    match command {
        Command::Run(args) => one(args).await,
        Command::Matrix(args) => {
            ExitCode::from(u8::from(!matrix::run(args.profile, some(args.seed), &args.store).await))
        }
        Command::Mutants(args) => match mutants::run(&args.only, some(args.seed), &args.store).await {
            Ok(all_found) => ExitCode::from(u8::from(!all_found)),
            Err(error) => failed(&error),
        },
        Command::Serve { store, port } => match serve::run(&store, port).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        },
        Command::Replay { folder } => match run::replay(&folder).await {
            Ok(report) => told(&report),
            Err(error) => failed(&error),
        },
        Command::Shrink { folder } => match run::shrink(&folder).await {
            Ok(report) => told(&report),
            Err(error) => failed(&error),
        },
        Command::Check { folder } => match run::check(&folder) {
            Ok(report) => told(&report),
            Err(error) => failed(&error),
        },
    }
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
    let options = Options {
        rounds: args.rounds.unwrap_or(args.test.specified_rounds()),
        seed: args.seed.unwrap_or_else(rand::random),
        nodes: usize::from(args.nodes),
        hypervisor: match args.hypervisor {
            HypervisorName::Simulated => Hypervisor::Simulated,
            HypervisorName::CloudHypervisor => Hypervisor::CloudHypervisor,
        },
        plant: args.plant,
        store: args.store,
    };
    let trouble = args.nemesis.map(|nemesis| Trouble {
        nemesis,
        extent: args.seconds.map_or(Extent::Rounds(options.rounds), Extent::Seconds),
    });
    if (trouble.is_some() || args.test.is_isolated())
        && let Some(why) = isolation_missing()
    {
        eprintln!("SKIPPED: {}: {why}", args.test.name());
        return ExitCode::from(3);
    }
    eprintln!("{} with seed {}", args.test.name(), options.seed);
    match run::run_under(args.test, &options, trouble).await {
        Ok(report) => told(&report),
        Err(error) => failed(&error),
    }
}

fn told(report: &Report) -> ExitCode {
    // Whoever reads only the beginning has seen enough.
    let _ = write!(std::io::stdout(), "{report}");
    match (report.is_valid(), report.is_invalid()) {
        (true, _) => ExitCode::SUCCESS,
        (false, true) => ExitCode::from(1),
        (false, false) => ExitCode::from(3),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("holm-jepsen: {error:#}");
    ExitCode::from(3)
}
