//! `holm-raft-sim`: simulate the Raft layer, a seed a run and a run a process.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use holm_model::planted::plant_named;
use holm_raft_sim::Plan;

/// Simulate the Raft layer, and print the command of the first seed that fails.
#[derive(Debug, Parser)]
#[command(name = "holm-raft-sim", version)]
struct Args {
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Print every event; for one seed.
    #[arg(long)]
    trace: bool,
    /// Break a promise of the product's own code, by the names of `holm_model::planted`; needs a build with the
    /// feature `planted`.
    #[arg(long)]
    plant: Option<String>,
    /// Nothing breaks, but one member is set back to an earlier copy of its data.
    #[arg(long)]
    set_back: bool,
    /// Run this one seed here, in this process.
    #[arg(long, hide = true)]
    one: Option<u64>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match args.one {
        Some(seed) => one(seed, &args),
        None => many(&args),
    }
}

fn one(seed: u64, args: &Args) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "off".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    if let Some(plant) = &args.plant {
        plant_named(plant).map_err(anyhow::Error::msg)?;
    }
    let plan = if args.set_back { Plan::SetBack } else { Plan::Faults };
    let report = holm_raft_sim::run(seed, plan, args.trace);
    println!("seed {seed}: {}; {}", report.trace, report.figures);
    match report.violation {
        None => Ok(()),
        Some(violation) => {
            println!("seed {seed}: {violation}");
            std::process::exit(1)
        }
    }
}

fn many(args: &Args) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("this program has a path")?;
    let began = Instant::now();
    for seed in args.from..args.from + args.seeds {
        let mut command = Command::new(&program);
        command.arg("--one").arg(seed.to_string());
        command.args(args.trace.then_some("--trace"));
        command.args(args.set_back.then_some("--set-back"));
        command.args(args.plant.iter().flat_map(|plant| ["--plant", plant]));
        let output = command.stderr(Stdio::inherit()).output().context("this program runs")?;
        let said = String::from_utf8_lossy(&output.stdout);
        if args.trace || !output.status.success() {
            print!("{said}");
        }
        if !output.status.success() {
            let set_back = if args.set_back { " --set-back" } else { "" };
            let plant = args.plant.iter().map(|plant| format!(" --plant {plant}")).collect::<String>();
            anyhow::bail!("holm-raft-sim --from {seed} --seeds 1 --trace{set_back}{plant}");
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let pace = args.seeds as f64 / seconds * 60.0;
    // Apart from what the seeds say, which is the same every time.
    eprintln!(
        "{} seeds from {} in {seconds:.1} s ({pace:.0} a minute), nothing found",
        args.seeds, args.from
    );
    Ok(())
}
