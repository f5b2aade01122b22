//! `holm`, the administrator's command line: reads the arguments, runs one command, and turns its outcome
//! into an exit code. See README.md for the map.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod client;
mod commands;
mod error;
mod output;
mod progress;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::args::Cli;
use crate::error::Error;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help that nobody reads to the end is no failure.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let format = cli.global.output;
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.print(format);
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(cli: Cli) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::failed(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(commands::run(cli));
    // A read of stdin that is still pending (console) cannot be cancelled; it must not hold up the end.
    runtime.shutdown_timeout(Duration::from_millis(10));
    outcome
}
