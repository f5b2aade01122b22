//! What `holmd` does when it is called: reads its arguments and runs one of its parts.

use std::process::ExitCode;

use crate::cli::{Cli, Command, TestGuest, Variant, Watchdog};
use crate::config::Config;
use crate::{guests, lifecycle, wiring};
use anyhow::{Context, Result};
use clap::Parser;
use holm_vmm::{test_guest, watchdog};

/// The whole program.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Init(args) => lifecycle::init(args),
        Command::Join(args) => lifecycle::join(args),
        Command::Run(args) => wiring::run(args),
        Command::StopGuests(args) => guests::stop(args),
        Command::AllowGuests(args) => guests::allow(&args),
        Command::Watchdog(args) => watchdog(args),
        // Single-threaded, before any runtime exists; does not return.
        Command::Shim(args) => holm_vmm::shim::main(args.args),
        Command::TestGuest(args) => write_test_guest(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holmd: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Single-threaded too, so that nothing of it waits for anything but the next look.
fn watchdog(args: Watchdog) -> Result<()> {
    // Where the shims of this very node leave word: another directory would always look well.
    let run_dir = match args.run_dir {
        Some(run_dir) => run_dir,
        None => Config::read(&args.data_dir)?.run_dir,
    };
    let settings = watchdog::Settings { device: args.device, run_dir, timeout_s: args.timeout };
    Ok(watchdog::run(&settings, |line| eprintln!("holmd: {line}"))?)
}

fn write_test_guest(args: &TestGuest) -> Result<()> {
    let variant = match args.variant {
        Variant::Banner => test_guest::Variant::Banner,
        Variant::Echo => test_guest::Variant::Echo,
        Variant::Poweroff => test_guest::Variant::Poweroff,
        Variant::Reset => test_guest::Variant::Reset,
        Variant::Flood => test_guest::Variant::Flood,
    };
    std::fs::write(&args.file, test_guest::elf(variant))
        .with_context(|| format!("cannot write {}", args.file.display()))
}
