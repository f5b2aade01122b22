//! `holm-sim`: the model and the simulation by hand.

use clap::{Parser, Subcommand};
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
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Fencing { rules, seed, steps } => fencing(rules, seed, steps),
    }
}

fn fencing(rules: Rules, seed: u64, steps: u64) -> anyhow::Result<()> {
    let Some(found) = walk::walk(rules, seed, steps) else {
        println!("rules {rules}: nothing in {steps} steps from seed {seed}");
        return Ok(());
    };
    let shrunk = walk::shrink(rules, &found);
    println!(
        "rules {rules}: {:?} after {} steps; the VM is asked for as {:?}",
        shrunk.violation, found.steps, shrunk.availability
    );
    for (number, action) in shrunk.actions.iter().enumerate() {
        println!("{:>3}  {action}", number + 1);
    }
    anyhow::bail!("holm-sim fencing --rules {rules} --seed {seed} --steps {steps}")
}
