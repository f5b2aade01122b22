//! `holm cluster policy …` as typed.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::value::duration;

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Shows the policy, and what each number may be.
    Show,
    /// Changes the policy; what is not named stays.
    Set(Set),
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)
    .args(["lease_ttl", "margin", "autostart_wait"])))]
pub struct Set {
    /// How long a node may run failover VMs without contact. Shorter: they come back sooner. Longer: they outlive
    /// longer trouble of the network.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub lease_ttl: Option<Duration>,
    /// What is waited beyond it before a node is fenced, for clocks that drift and a kill that takes its time.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub margin: Option<Duration>,
    /// How long a node that booted waits for the cluster before it starts the pinned VMs it had.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub autostart_wait: Option<Duration>,
}
