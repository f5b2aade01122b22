//! Developer commands of Holm: `cargo xtask demo`, `bench` and `check-deps`.

mod bench;
mod check_deps;
mod client;
mod demo;
mod dev_cluster;
mod interrupt;
mod probe;
mod process;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Cli {
    /// Builds Holm, runs a cluster of three nodes, creates VMs, kills the leader, cleans up.
    ///
    /// Boots real guests where Cloud Hypervisor and /dev/kvm are there, simulated ones elsewhere.
    Demo,
    /// Measures what the design has a budget for, and shows a table.
    Bench(bench::Arguments),
    /// Checks that crates depend only on those the design allows.
    CheckDeps,
}

fn main() -> ExitCode {
    let result = interrupt::watch().and_then(|()| match Cli::parse() {
        Cli::Demo => demo::run(),
        Cli::Bench(arguments) => bench::run(&arguments),
        Cli::CheckDeps => check_deps::run(),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
