//! What can be typed: the command line as types, and nothing else. Values are parsed as far as that needs
//! no file, no network and no clock; the commands do the rest. `--help` of every command is kept as a
//! golden file, so a change here shows in review.

pub mod aggregate;
pub mod candidates;
pub mod dev;
pub mod flavor;
pub mod group;
pub mod image;
pub mod node;
pub mod policy;
pub mod project;
pub mod quota;
pub mod scheduler;
pub mod value;
pub mod vm;
pub mod volume;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Runs virtual machines on a handful of nodes.
///
/// Exit codes: 0 done; 1 refused, the message says why; 2 the command line is wrong; 3 no node could be
/// reached, or the outcome is unknown.
#[derive(Debug, Parser)]
#[command(name = "holm", version, propagate_version = true, subcommand_required = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub noun: Noun,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Where the cluster answers: `host:port`, `http://host:port` or `unix:/path`. Repeat it (or
    /// separate by commas) to fail over between nodes. Without it: the variable HOLM_ENDPOINTS, else the
    /// local daemon's socket, else http://127.0.0.1:7460.
    // The variable is read by the command: through clap, it would show as a required option in every usage.
    #[arg(long = "endpoint", value_name = "ENDPOINT", value_delimiter = ',')]
    #[arg(global = true, help_heading = "Global options")]
    pub endpoints: Vec<String>,

    /// The project whose VMs, server groups, images and volumes are meant; names are looked up in it. Without it: the variable
    /// HOLM_PROJECT, else `default`.
    // As above.
    #[arg(long, value_name = "NAME", global = true, help_heading = "Global options")]
    pub project: Option<String>,

    /// Show what a node knows by itself, perhaps out of date: for `list`, `show`, `explain` and `cluster
    /// status` when too few nodes are up for an answer that is certain.
    #[arg(long, global = true, help_heading = "Global options")]
    pub stale: bool,

    /// How to print: `table` for people, the API's records as `json` or `yaml`, or one `name` a line.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    #[arg(global = true, help_heading = "Global options")]
    pub output: Format,
}

/// How records are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
    Yaml,
    Name,
}

#[derive(Debug, Subcommand)]
pub enum Noun {
    /// Virtual machines.
    #[command(subcommand)]
    Vm(vm::Verb),
    /// The hosts that run VMs.
    #[command(subcommand)]
    Node(node::Verb),
    /// Named sizes of VMs.
    #[command(subcommand)]
    Flavor(flavor::Verb),
    /// What VMs boot from.
    #[command(subcommand)]
    Image(image::Verb),
    /// Storage outside the cluster that VMs are given.
    #[command(subcommand)]
    Volume(volume::Verb),
    /// Nodes with something in common, and the zones they make.
    #[command(subcommand)]
    Aggregate(aggregate::Verb),
    /// VMs that are kept together or apart.
    #[command(subcommand)]
    Group(group::Verb),
    /// Availability zones; aggregates make them.
    #[command(subcommand)]
    Az(AzVerb),
    /// The policy by which VMs are placed.
    #[command(subcommand)]
    Scheduler(scheduler::Verb),
    /// How much a project may hold.
    #[command(subcommand)]
    Quota(quota::Verb),
    /// Whose VMs, server groups, images and volumes are whose: names, quotas and placement, not access.
    #[command(subcommand)]
    Project(project::Verb),
    /// The cluster as a whole.
    #[command(subcommand)]
    Cluster(ClusterVerb),
    /// Lists what happened, oldest first.
    Events(Events),
    /// Looks for anything wrong with the cluster; exit code 1 if there is.
    Check,
    /// Prints a completion script for a shell.
    ///
    /// For bash: `holm completion bash > /etc/bash_completion.d/holm`.
    Completion { shell: clap_complete::Shell },
    /// A local cluster on this machine, for trying things out and for tests.
    #[command(subcommand)]
    Dev(dev::Verb),
}

impl Noun {
    /// Whether this only shows records, which a node may also know by itself.
    pub fn may_be_stale(&self) -> bool {
        match self {
            Self::Vm(verb) => match verb {
                vm::Verb::List(typed) => !typed.watch,
                vm::Verb::Show(_) | vm::Verb::Explain(_) => true,
                _ => false,
            },
            Self::Node(verb) => {
                matches!(verb, node::Verb::List | node::Verb::Show(_) | node::Verb::Orphans { .. })
            }
            Self::Flavor(verb) => matches!(verb, flavor::Verb::List | flavor::Verb::Show(_)),
            Self::Image(verb) => matches!(verb, image::Verb::List(_) | image::Verb::Show(_)),
            Self::Volume(verb) => matches!(verb, volume::Verb::List(_) | volume::Verb::Show(_)),
            Self::Aggregate(verb) => matches!(verb, aggregate::Verb::List | aggregate::Verb::Show(_)),
            Self::Group(verb) => matches!(verb, group::Verb::List(_) | group::Verb::Show(_)),
            Self::Az(_) => true,
            Self::Scheduler(verb) => matches!(verb, scheduler::Verb::Show),
            Self::Project(verb) => matches!(verb, project::Verb::List | project::Verb::Show(_)),
            Self::Quota(verb) => matches!(verb, quota::Verb::List | quota::Verb::Show(_)),
            Self::Cluster(ClusterVerb::Status | ClusterVerb::Policy(policy::Verb::Show)) => true,
            _ => false,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum ClusterVerb {
    /// Shows the cluster, its members, its leader and what is wrong.
    #[command(visible_alias = "show")]
    Status,
    /// Announces work on the network: meanwhile failover VMs run on without contact, and no node is fenced, so none
    /// of them comes back elsewhere either.
    #[command(group(clap::ArgGroup::new("freeze").required(true).args(["time", "end"])))]
    Freeze {
        /// From now on for this long; at most 24h.
        #[arg(long = "for", id = "time", value_name = "DURATION", value_parser = value::duration)]
        time: Option<std::time::Duration>,
        /// Why, for those who will wonder.
        #[arg(long, conflicts_with = "end")]
        reason: Option<String>,
        /// Call it off. Nodes are fenced again once the leases given meanwhile have ended.
        #[arg(long)]
        end: bool,
    },
    /// Leases and fencing: how soon a node counts as lost.
    #[command(subcommand)]
    Policy(policy::Verb),
    /// Plans moves of VMs for a more even use of the nodes, with what each gains; the policy's weighers Cpu, Ram and
    /// Disk say what counts. Without live migration, VMs move that are off or fail over.
    Rebalance {
        /// Begin the moves: each VM is stopped and started on its new node.
        #[arg(long)]
        apply: bool,
        /// At most so many moves.
        #[arg(long, value_name = "N", default_value_t = 10)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
        max_moves: u32,
        /// The least a move must gain, in percentage points.
        #[arg(long, value_name = "POINTS", default_value = "1", value_parser = value::decimal)]
        min_gain: f64,
    },
    /// Says which VMs would fit where if nodes were lost or drained, and which would not; without nodes, whether any
    /// one node could be lost and every failover VM still find a host (N+1). Nothing changes.
    WhatIf {
        /// A node that would be gone; may be repeated.
        #[arg(long, value_name = "NODE")]
        lose: Vec<String>,
        /// A node that would be emptied; may be repeated.
        #[arg(long, value_name = "NODE")]
        drain: Vec<String>,
    },
    /// Says which nodes would take a VM now, how many, and why the others would not: Placement's allocation candidates.
    Candidates(candidates::Candidates),
}

#[derive(Debug, Subcommand)]
pub enum AzVerb {
    /// Lists the zones, with their nodes.
    List,
    /// Shows a zone, with the aggregates that make it.
    Show {
        /// Name.
        zone: String,
    },
}

#[derive(Debug, Args)]
pub struct Events {
    /// Go on printing events as they happen, until Ctrl-C.
    #[arg(short, long)]
    pub follow: bool,
    /// Only events after this revision; without it, all that are kept.
    #[arg(long, value_name = "REVISION")]
    pub since: Option<u64>,
}

#[cfg(test)]
#[path = "args/help_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "args/advice_tests.rs"]
mod advice_tests;
