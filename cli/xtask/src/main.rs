//! Developer commands of Holm: `cargo xtask check-deps`.

mod check_deps;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Cli {
    /// Checks that crates depend only on those the design allows.
    CheckDeps,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse() {
        Cli::CheckDeps => check_deps::run(),
    }
}
