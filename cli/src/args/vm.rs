//! `holm vm …` as typed.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use holm_api::{Requirement, Toleration};

use super::value::{BoundedWait, Wait, duration};

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Creates a VM, and waits until it is ACTIVE.
    Create(Box<Create>),
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
    Explain(Explain),
    /// Makes the last decision about a VM again, on the state and by the policy it was made on, and says whether it is
    /// the same. The node that is asked needs its log of that time: of decisions older than its snapshot it has none.
    Replay(Target),
    /// Changes how a VM is kept running; what is not named stays.
    Set(Set),
    /// Takes VMs from a node that is down because you know that the machine is off: they start anew on other nodes,
    /// without what was on their disks.
    Evacuate(Evacuate),
    /// Takes a VM out of a step that does not end; its node's next report tells how it is. Steps end by themselves,
    /// so this should never be needed.
    ResetState(Target),
}

#[derive(Debug, Args)]
pub struct Target {
    /// Name or id.
    pub vm: String,
}

#[derive(Debug, Args)]
pub struct Explain {
    /// Name or id.
    pub vm: String,
    /// Each node by itself, also where there are many.
    #[arg(long)]
    pub all: bool,
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
    /// A shared volume it is given, by name or id; may be repeated, and the guest sees them in this order.
    #[arg(long = "volume", value_name = "VOLUME")]
    pub volumes: Vec<String>,
    /// What happens when it fits on no node.
    #[arg(long, value_enum, default_value_t = OnNoHost::Queue)]
    pub on_no_host: OnNoHost,
    #[command(flatten)]
    pub keep: Keep,
    #[command(flatten)]
    pub scheduling: Scheduling,
    /// Create so many, named NAME-1, NAME-2 …
    #[arg(long, value_name = "N")]
    pub count: Option<u32>,
    /// With --count: all or none, of the records and of the hosts: they wait until all fit at once, or fail together.
    /// Otherwise as many as there is quota for, each with a host of its own
    #[arg(long, requires = "count")]
    pub atomic: bool,
    /// Create nothing; say what each node's filters and weighers make of it.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub wait: BoundedWait,
}

/// How it is kept running.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Keeping it running")]
#[group(id = "keep")]
pub struct Keep {
    /// Whether it may come back on another node when its own is lost [default: pinned].
    #[arg(long, value_enum)]
    pub availability: Option<Availability>,
    /// What may become of its local disk when it leaves its node [default: refuse].
    #[arg(long, value_enum, value_name = "WHAT")]
    pub disk_loss: Option<DiskLoss>,
    /// Whether a run that ends by itself is followed by another [default: never].
    #[arg(long = "restart", value_enum, value_name = "WHEN")]
    pub restart_policy: Option<Restart>,
    /// After a boot of its host: lower goes first, equal ones together [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub start_order: Option<i32>,
    /// After a boot of its host: wait this long once those of lower order have started [default: 0s].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub start_delay: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)
    .args(["availability", "disk_loss", "restart_policy", "start_order", "start_delay", "any_node"])))]
pub struct Set {
    /// Name or id.
    pub vm: String,
    /// It was created for one node (--node): let it run on any.
    #[arg(long)]
    pub any_node: bool,
    #[command(flatten)]
    pub keep: Keep,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["vms", "node"])))]
pub struct Evacuate {
    /// Names or ids.
    #[arg(value_name = "VM")]
    pub vms: Vec<String>,
    /// All pinned VMs of this node, by name or id. Failover VMs need nobody's word.
    #[arg(long)]
    pub node: Option<String>,
    /// You state that the machine is switched off, and reaches the cluster when it is switched on again. If not, the
    /// VMs run twice.
    #[arg(long, required = true)]
    pub confirm_node_off: bool,
    #[command(flatten)]
    pub wait: BoundedWait,
}

/// Whether a VM may come back on another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Availability {
    /// It runs through any trouble of the cluster, and waits for its node.
    Pinned,
    /// It stops when its node loses contact with the cluster, and comes back elsewhere.
    Failover,
}

/// What may become of a local disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiskLoss {
    /// It holds something: the VM stays with it.
    Refuse,
    /// It is written anew from the image; what the guest wrote is lost.
    Recreate,
}

/// When a run that ended is followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Restart {
    /// Also when the guest powered itself off.
    Always,
    /// When the VMM failed.
    OnFailure,
    Never,
}

/// What it asks of its host. Everything that is given must hold.
#[derive(Debug, Args)]
#[command(next_help_heading = "Placement")]
pub struct Scheduling {
    /// Only nodes of this availability zone.
    #[arg(long = "az", value_name = "ZONE")]
    pub availability_zone: Option<String>,
    /// Only nodes whose labels are so: `gpu`, `!slow`, `disk = nvme`, `disk in (nvme,ssd)`, `cores > 8`; may be
    /// repeated.
    #[arg(long = "selector", value_name = "SELECTOR")]
    pub selectors: Vec<Requirement>,
    /// Put up with nodes tainted so: KEY, KEY=VALUE, KEY=VALUE:EFFECT, or `*` for every taint; may be repeated.
    #[arg(long = "toleration", value_name = "TOLERATION")]
    pub tolerations: Vec<Toleration>,
    /// Join this server group, by name or id.
    #[arg(long)]
    pub group: Option<String>,
    /// Not on a host with this VM; may be repeated.
    #[arg(long, value_name = "VM")]
    pub different_host: Vec<String>,
    /// On a host with this VM, or with one of several; may be repeated.
    #[arg(long, value_name = "VM")]
    pub same_host: Vec<String>,
    /// On a node whose API address lies in this network, where the filter SimpleCidrAffinity is on.
    #[arg(long, value_name = "NETWORK")]
    pub near: Option<String>,
    /// Greater goes first when many wait.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// It may be evicted, its disks lost, for a VM of greater priority, where the scheduler's policy has preemption
    /// on.
    #[arg(long)]
    pub preemptible: bool,
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
    /// Those of every project.
    #[arg(long)]
    pub all_projects: bool,
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
