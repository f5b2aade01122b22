//! `holm node …` as typed.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Lists the nodes.
    List,
    /// Shows everything about a node.
    Show(Target),
    /// Places nothing new on a node; what runs there goes on.
    Cordon(Cordon),
    /// Allows new VMs on a node again.
    Uncordon(Target),
    /// Removes a node from the cluster for good.
    Remove(Remove),
}

#[derive(Debug, Args)]
pub struct Target {
    /// Name or id.
    pub node: String,
}

#[derive(Debug, Args)]
pub struct Cordon {
    /// Name or id.
    pub node: String,
    /// Why, for those who will wonder.
    #[arg(long)]
    pub reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct Remove {
    /// Name or id.
    pub node: String,
    /// You state that the machine is off and will stay off: its VMs are given up. If it is not, they run
    /// on unseen, with their disks and addresses.
    #[arg(long)]
    pub confirm_node_off: bool,
}
