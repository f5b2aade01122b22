//! `holm vm …` as typed.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::value::{BoundedWait, Wait, duration};

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Creates a VM, and waits until it is ACTIVE.
    Create(Create),
    /// Lists VMs.
    List(List),
    /// Shows everything about a VM.
    Show(Target),
    /// Powers a VM on.
    Start(Start),
    /// Powers a VM off: its power button first, the power itself after the time-out.
    Stop(Stop),
    /// Powers a VM off and on again.
    Reboot(Reboot),
    /// Deletes a VM and its disks.
    Delete(Delete),
    /// Prints the end of a VM's console log.
    Log(Log),
    /// Attaches this terminal to a VM's serial console; Ctrl-] detaches.
    Console(Target),
    /// Says why a VM is where it is, or why it is not placed: host by host.
    Explain(Target),
}

#[derive(Debug, Args)]
pub struct Target {
    /// Name or id.
    pub vm: String,
}

#[derive(Debug, Args)]
pub struct Create {
    /// 1 to 63 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Its size: name or id of a flavor.
    #[arg(long)]
    pub flavor: String,
    /// What it boots from: name or id of an image.
    #[arg(long)]
    pub image: String,
    /// Only this node, by name or id.
    #[arg(long)]
    pub node: Option<String>,
    /// Start a disk image with this kernel image instead of the node's firmware.
    #[arg(long, value_name = "IMAGE")]
    pub kernel: Option<String>,
    /// Kernel command line.
    #[arg(long, value_name = "TEXT")]
    pub cmdline: Option<String>,
    /// What happens when it fits on no node.
    #[arg(long, value_enum, default_value_t = OnNoHost::Queue)]
    pub on_no_host: OnNoHost,
    #[command(flatten)]
    pub wait: BoundedWait,
}

/// What happens when no host fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnNoHost {
    /// It waits, with the reasons shown, until the cluster's build time-out.
    Queue,
    /// It goes to ERROR at once.
    Fail,
}

#[derive(Debug, Args)]
pub struct List {
    /// Only VMs placed on this node, by name or id.
    #[arg(long)]
    pub node: Option<String>,
    /// Only VMs in this status (BUILD, ACTIVE, PAUSED, SHUTOFF, ERROR, MIGRATING, DELETING).
    #[arg(long, ignore_case = true)]
    pub status: Option<String>,
    /// Go on showing them: redraws on a terminal, a line per change in a pipe.
    #[arg(short, long)]
    pub watch: bool,
}

#[derive(Debug, Args)]
pub struct Start {
    /// Name or id.
    pub vm: String,
    #[command(flatten)]
    pub wait: BoundedWait,
}

#[derive(Debug, Args)]
pub struct Stop {
    /// Name or id.
    pub vm: String,
    /// Cut the power at once.
    #[arg(long)]
    pub force: bool,
    /// The guest's time: cut the power when it is not off after this long [default: 60s].
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "force")]
    pub timeout: Option<Duration>,
    #[command(flatten)]
    pub wait: Wait,
}

#[derive(Debug, Args)]
pub struct Reboot {
    /// Name or id.
    pub vm: String,
    /// Cut the power instead of asking the guest.
    #[arg(long, visible_alias = "force")]
    pub hard: bool,
    /// The guest's time: cut the power when it is not off after this long [default: 60s].
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "hard")]
    pub timeout: Option<Duration>,
    #[command(flatten)]
    pub wait: Wait,
}

#[derive(Debug, Args)]
pub struct Delete {
    /// Names or ids.
    #[arg(required = true, value_name = "VM")]
    pub vms: Vec<String>,
    #[command(flatten)]
    pub wait: BoundedWait,
}

#[derive(Debug, Args)]
pub struct Log {
    /// Name or id.
    pub vm: String,
    /// Go on printing what the guest prints, until Ctrl-C.
    #[arg(short, long)]
    pub follow: bool,
    /// At most this many bytes of the end.
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    pub bytes: u64,
}
