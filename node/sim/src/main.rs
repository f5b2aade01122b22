//! `holm-sim`: the model and the simulation by hand.

#[cfg(feature = "planted")]
use anyhow::Context;
use clap::{Parser, Subcommand};
use holm_model::planted::plant_named;
use holm_sim::cluster::{self, Bug, Figures, Options};
use holm_sim::fencing::{Rules, walk};

/// Attack the fencing protocol and simulate the cluster.
#[derive(Debug, Parser)]
#[command(name = "holm-sim", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Walk through the fencing protocol at random and print the first interleaving that breaks it.
    Fencing {
        /// `all`, or `without-<rule>[,<rule>…]`, by the numbers of node/FENCING.md.
        #[arg(long, default_value = "all")]
        rules: Rules,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        #[arg(long, default_value_t = 3_000_000)]
        steps: u64,
    },
    /// Simulate the cluster, a seed a run, and print the command of the first that fails.
    Run {
        #[arg(long, default_value_t = 1)]
        seeds: u64,
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// Print every event.
        #[arg(long)]
        trace: bool,
        /// Break something on purpose.
        #[arg(long)]
        bug: Option<Bug>,
        /// Break a promise of the product's own code, by the names of `holm_model::planted`; needs a build with
        /// the feature `planted`.
        #[arg(long)]
        plant: Option<String>,
    },
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Fencing { rules, seed, steps } => fencing(rules, seed, steps),
        Command::Run { seeds, from, trace, bug, plant } => {
            if let Some(plant) = &plant {
                plant_named(plant).map_err(anyhow::Error::msg)?;
            }
            run(seeds, from, trace, bug, plant)
        }
    }
}

fn fencing(rules: Rules, seed: u64, steps: u64) -> anyhow::Result<()> {
    let Some(found) = walk::walk(rules, seed, steps) else {
        println!("rules {rules}: nothing in {steps} steps from seed {seed}");
        return Ok(());
    };
    let shrunk = walk::shrink(rules, &found);
    let (violation, availability) = (shrunk.violation, shrunk.availability);
    println!("rules {rules}: {violation:?} after {} steps; the VM is {availability:?}", found.steps);
    for (number, action) in shrunk.actions.iter().enumerate() {
        println!("{:>3}  {action}", number + 1);
    }
    anyhow::bail!("holm-sim fencing --rules {rules} --seed {seed} --steps {steps}")
}

fn run(seeds: u64, from: u64, trace: bool, bug: Option<Bug>, plant: Option<String>) -> anyhow::Result<()> {
    let began = std::time::Instant::now();
    let mut all = Figures::default();
    for seed in from..from + seeds {
        let outcome = cluster::run(Options { seed, bug, trace });
        print!("{}", outcome.trace);
        if let Some(violation) = outcome.violation {
            println!("seed {seed}: {violation}");
            let bug = bug.map(|bug| format!(" --bug {}", name(bug))).unwrap_or_default();
            let plant = plant.map(|plant| format!(" --plant {plant}")).unwrap_or_default();
            anyhow::bail!("holm-sim run --from {seed} --seeds 1 --trace{bug}{plant}");
        }
        all.add(&outcome.figures);
    }
    println!("{seeds} seeds from {from} in {:.1} s, nothing found: {all}", began.elapsed().as_secs_f64());
    Ok(())
}

fn name(bug: Bug) -> String {
    use clap::ValueEnum;
    bug.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
