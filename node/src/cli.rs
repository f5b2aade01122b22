//! `holmd`'s own command line: what an operator or a service manager starts.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::HypervisorChoice;

/// The Holm daemon: the same on every node.
#[derive(Debug, Parser)]
#[command(name = "holmd", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make this host the first node of a new cluster.
    Init(Init),
    /// Make this host a further node of a cluster that runs.
    Join(Join),
    /// Run the daemon.
    Run(Run),
    /// Power off every guest of this host, for its shutdown; the daemon need not run.
    StopGuests(StopGuests),
    /// Let guests start again that `stop-guests` holds off; a boot does the same.
    AllowGuests(AllowGuests),
    /// Feed the host's hardware watchdog for as long as no VM outlives its lease; see holm-watchdog.service.
    Watchdog(Watchdog),
    /// The process that parents one VM; started by the daemon.
    #[command(hide = true, disable_help_flag = true)]
    Shim(Shim),
    /// Write the built-in test guest, a kernel image of a few hundred bytes, to a file.
    TestGuest(TestGuest),
}

/// Where the data is, and how others reach this node.
#[derive(Debug, Args)]
pub struct Node {
    /// Directory of the log, snapshots, images and VMs.
    #[arg(long, env = "HOLMD_DATA_DIR", default_value = "/var/lib/holm", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Name of this node, unique in the cluster [default: the host's name].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Address of the peer service.
    #[arg(long, default_value = "127.0.0.1:7461", value_name = "IP:PORT")]
    pub peer_listen: SocketAddr,
    /// How other nodes reach the peer service [default: the listen address].
    #[arg(long, value_name = "HOST:PORT")]
    pub peer_advertise: Option<String>,
    /// Address of the REST service.
    #[arg(long, default_value = "127.0.0.1:7460", value_name = "IP:PORT")]
    pub api_listen: SocketAddr,
    /// How others reach the REST service [default: the listen address].
    #[arg(long, value_name = "HOST:PORT")]
    pub api_advertise: Option<String>,
    /// Where sockets live; short, on tmpfs, one for each node.
    #[arg(long, env = "HOLMD_RUN_DIR", default_value = "/run/holm", value_name = "DIR")]
    pub run_dir: PathBuf,
    /// Listen beyond loopback although nothing is encrypted or authenticated yet.
    #[arg(long, env = "HOLMD_INSECURE")]
    pub insecure: bool,
}

/// `holmd init`
#[derive(Debug, Args)]
pub struct Init {
    /// Name of the cluster.
    #[arg(long, default_value = "holm", value_name = "NAME")]
    pub cluster: String,
    #[command(flatten)]
    pub node: Node,
}

/// `holmd join`
#[derive(Debug, Args)]
pub struct Join {
    /// Peer address of any member; may be given several times.
    #[arg(long, required = true, value_name = "HOST:PORT")]
    pub seed: Vec<String>,
    /// Give up after this many seconds.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub timeout: u64,
    #[command(flatten)]
    pub node: Node,
}

/// `holmd run`
#[derive(Debug, Args)]
pub struct Run {
    /// Directory that `holmd init` or `holmd join` prepared.
    #[arg(long, env = "HOLMD_DATA_DIR", default_value = "/var/lib/holm", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Overrides `run_dir` of holmd.toml.
    #[arg(long, env = "HOLMD_RUN_DIR", value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Overrides `hypervisor.kind` of holmd.toml.
    #[arg(long, env = "HOLMD_HYPERVISOR")]
    pub hypervisor: Option<HypervisorChoice>,
    /// Overrides `insecure` of holmd.toml.
    #[arg(long, env = "HOLMD_INSECURE")]
    pub insecure: bool,
    /// Overrides `log.level` of holmd.toml.
    #[arg(long, env = "HOLMD_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// The data directory was moved here from another machine, and is used nowhere else any more. Needed once.
    #[arg(long)]
    pub moved: bool,
}

/// `holmd stop-guests`
#[derive(Debug, Args)]
pub struct StopGuests {
    /// Data directory of the node.
    #[arg(long, env = "HOLMD_DATA_DIR", default_value = "/var/lib/holm", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Overrides `run_dir` of holmd.toml.
    #[arg(long, env = "HOLMD_RUN_DIR", value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Guests that do not answer the power button are switched off after this long.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub timeout: u32,
}

/// `holmd allow-guests`
#[derive(Debug, Args)]
pub struct AllowGuests {
    /// Data directory of the node.
    #[arg(long, env = "HOLMD_DATA_DIR", default_value = "/var/lib/holm", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Overrides `run_dir` of holmd.toml.
    #[arg(long, env = "HOLMD_RUN_DIR", value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
}

/// `holmd watchdog`
#[derive(Debug, Args)]
pub struct Watchdog {
    /// The watchdog.
    #[arg(long, default_value = "/dev/watchdog", value_name = "FILE")]
    pub device: PathBuf,
    /// Data directory of the node.
    #[arg(long, env = "HOLMD_DATA_DIR", default_value = "/var/lib/holm", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Overrides `run_dir` of holmd.toml.
    #[arg(long, env = "HOLMD_RUN_DIR", value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// The host is reset this long after the last look that found all well. Less than the cluster's lease
    /// margin, or a VM may start elsewhere before this host is gone.
    #[arg(long, default_value_t = 4, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(2..=600))]
    pub timeout: u32,
}

/// `holmd shim`
#[derive(Debug, Args)]
pub struct Shim {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<std::ffi::OsString>,
}

/// `holmd test-guest`
#[derive(Debug, Args)]
pub struct TestGuest {
    #[arg(long, value_enum, default_value_t = Variant::Banner)]
    pub variant: Variant,
    /// Where to write it.
    pub file: PathBuf,
}

/// The guests there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Variant {
    /// Prints its banner and idles.
    Banner,
    /// Echoes what it reads; powers off on `q`. Polls, so it keeps a CPU busy.
    Echo,
    /// Powers off at once.
    Poweroff,
    /// Resets for ever.
    Reset,
    /// Prints for ever.
    Flood,
}
