//! VMs: what a client asks for, and the record it gets.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::explain::{Advice, Decision};
pub use crate::keep::{Availability, DiskLoss, EvacuateVm, Leaving, PatchVm, Recovery, RestartPolicy};
use crate::node::Hypervisor;
use crate::scheduling::{Requirement, Scheduling, Term, Toleration};
use crate::time::Timestamp;

/// Body of `POST /v1/vms`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateVm {
    /// 1 to 63 of letters, digits, `-`, `_`, `.`; unique within the project.
    pub name: String,
    /// Name or id.
    pub flavor: String,
    /// Name or id of what it boots: a kernel or a disk.
    pub image: String,
    /// Name or id of a kernel image that boots the disk instead of the node's firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Kernel command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmdline: Option<String>,
    /// Name or id of the only node allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(default)]
    pub on_no_host: OnNoHost,
    #[serde(default)]
    pub availability: Availability,
    #[serde(default, skip_serializing_if = "is_default")]
    pub disk_loss: DiskLoss,
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart_policy: RestartPolicy,
    /// After a boot of its host, lower goes first and equal ones together; at most a million either way.
    #[serde(default, skip_serializing_if = "is_default")]
    pub start_order: i32,
    /// After a boot of its host, seconds it waits once those of lower order have started; at most 3600.
    #[serde(default, skip_serializing_if = "is_default")]
    pub start_delay_s: u32,
    /// Only nodes of this zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// Demands on the node's labels; all must hold. Each an object, or in short: `disk in (nvme,ssd)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Term>)]
    pub node_selector: Vec<Requirement>,
    /// Taints it puts up with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Name or id of a server group it joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Names or ids of VMs it must not share a host with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub different_host: Vec<String>,
    /// Names or ids of VMs, one of which must be on its host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_host: Vec<String>,
    /// A network its host's API address must lie in, such as `10.1.0.0/16`; for the filter
    /// `SimpleCidrAffinity`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<String>,
    /// Greater goes first; 0 if not given, at most a million either way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Whether it may be evicted, its disks lost, for a VM of greater priority; only where the scheduler's policy
    /// has `preemption` on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preemptible: bool,
    /// Names or ids of shared volumes, in the order in which the guest sees them after its root disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// Creates so many VMs, named NAME-1, NAME-2 …; the answer is then a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub count: Option<u32>,
    /// With `count`: all records are created or none, and all get hosts at once or none does: where there is room for some
    /// only, all wait, or fail, as `on_no_host` says. Once they have hosts, each is for itself. No host is kept and nobody
    /// evicted for them. Otherwise as many as there is quota for, and those run for which there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atomic: Option<bool>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What `POST /v1/vms` answers to a request with `count`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CreatedVms {
    /// In the order of their numbers.
    pub items: Vec<Vm>,
    /// Those that were not created, and why.
    pub refused: Vec<RefusedVm>,
    /// What the operator should know of the cluster with these VMs; empty when all is well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    pub revision: u64,
}

/// One VM of a batch that was not created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedVm {
    pub name: String,
    pub code: crate::problem::Code,
    pub detail: String,
}

/// Body of `POST /v1/vms/{vm}/stop`; may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StopVm {
    /// Power off at once, without asking the guest.
    pub force: bool,
    /// Seconds the guest gets to shut down; 60 if not given, at most 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u32>,
}

/// Body of `POST /v1/vms/{vm}/reboot`; may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RebootVm {
    /// Power cycle at once, without asking the guest.
    pub hard: bool,
    /// Seconds the guest gets to shut down; 60 if not given, at most 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u32>,
}

/// What happens when no host fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnNoHost {
    /// Wait in BUILD, with the reasons shown, until the build time-out.
    #[default]
    Queue,
    /// ERROR at once.
    Fail,
}

/// One VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Vm {
    pub id: Uuid,
    pub name: String,
    pub project: String,
    pub status: VmStatus,
    /// The step a transitional status is in.
    pub task_state: Option<TaskState>,
    /// Name of the node that holds it; null while it is unplaced.
    pub node: Option<String>,
    pub node_id: Option<u64>,
    /// Whether that node is heard from. When false, `status` is the last that was known.
    pub node_up: Option<bool>,
    /// What drives it on that node; a simulated one runs no guest.
    pub hypervisor: Option<Hypervisor>,
    /// Fencing token of this placement.
    pub epoch: Option<u64>,
    pub flavor: VmFlavor,
    pub image: ImageRef,
    pub kernel: Option<ImageRef>,
    pub cmdline: Option<String>,
    /// Names of its shared volumes, in the order in which the guest sees them after its root disk.
    #[serde(default)]
    pub volumes: Vec<String>,
    /// The only node the operator allowed.
    pub requested_node: Option<String>,
    pub on_no_host: OnNoHost,
    /// As asked for.
    pub availability: Availability,
    /// In force on its node: `failover` only while whatever runs of it is bound to the node's lease. Null while
    /// it is unplaced.
    #[serde(default)]
    pub availability_in_force: Option<Availability>,
    #[serde(default)]
    pub disk_loss: DiskLoss,
    #[serde(default)]
    pub restart_policy: RestartPolicy,
    #[serde(default)]
    pub start_order: i32,
    #[serde(default)]
    pub start_delay_s: u32,
    /// How far it is on its way back from trouble.
    #[serde(default)]
    pub recovery: Recovery,
    /// What else it asks of its host.
    #[serde(default)]
    pub scheduling: Scheduling,
    /// How its host was chosen; null while it was never placed.
    #[serde(default)]
    pub decision: Option<Decision>,
    /// The power asked for.
    pub power: Power,
    /// Count of the power-ons asked for.
    pub run: u64,
    /// Why the status is what it is.
    pub fault: Option<Fault>,
    /// What its node last said.
    pub observed: Option<Observed>,
    /// Hosts where it failed to build.
    pub excluded: Vec<HostReason>,
    /// Why hosts refused it at the last decision: the words of 32 at most, of each filter among them. The fault's
    /// message counts all.
    pub refusals: Vec<HostReason>,
    /// What to do next about these, as far as they still refuse it; when this VM alone is read, and has no host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
    /// What it holds of its node, by resource class, the VMM's own memory included; empty while it is unplaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocations: BTreeMap<String, u64>,
    /// Host CPUs of its own, in the order of its vCPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Addresses of host PCI devices of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pci_devices: Vec<String>,
    /// Name of the node that is kept for it while it waits; null where none is.
    #[serde(default)]
    pub reserved_node: Option<String>,
    /// While it is unplaced: since when it waits.
    pub waiting_since: Option<Timestamp>,
    /// While it is unplaced: when it goes to ERROR.
    pub build_deadline: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub revision: u64,
    /// In the answer to its creation, start or change only: what the operator should know of the cluster with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What a user sees a VM doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VmStatus {
    Build,
    Active,
    Paused,
    Shutoff,
    Error,
    Migrating,
    Deleting,
}

impl VmStatus {
    /// Every status there is.
    pub const ALL: [Self; 7] = [
        Self::Build,
        Self::Active,
        Self::Paused,
        Self::Shutoff,
        Self::Error,
        Self::Migrating,
        Self::Deleting,
    ];

    /// The status as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Build => "BUILD",
            Self::Active => "ACTIVE",
            Self::Paused => "PAUSED",
            Self::Shutoff => "SHUTOFF",
            Self::Error => "ERROR",
            Self::Migrating => "MIGRATING",
            Self::Deleting => "DELETING",
        }
    }
}

impl fmt::Display for VmStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The step a transitional status is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    Scheduling,
    Spawning,
    PoweringOn,
    PoweringOff,
    Rebooting,
    Deleting,
    /// Its run ended, and its restart policy begins the next.
    Restarting,
    /// It leaves its node to be placed on another.
    Moving,
}

impl TaskState {
    /// The step as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduling => "scheduling",
            Self::Spawning => "spawning",
            Self::PoweringOn => "powering-on",
            Self::PoweringOff => "powering-off",
            Self::Rebooting => "rebooting",
            Self::Deleting => "deleting",
            Self::Restarting => "restarting",
            Self::Moving => "moving",
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    On,
    Off,
}

/// The flavor a VM was made from, with the sizes it had then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VmFlavor {
    pub id: Uuid,
    pub name: String,
    pub vcpus: u32,
    pub memory_mib: u64,
    pub disk_gib: u64,
}

/// An image, by id and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageRef {
    pub id: Uuid,
    pub name: String,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fault {
    pub message: String,
    /// Name of the node where it happened, if on one.
    pub node: Option<String>,
    pub at: Timestamp,
}

/// What the node last said about a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Observed {
    pub state: ObservedState,
    /// With `progress`: which step.
    pub step: Option<String>,
    /// With `failed` and `unknown`: why.
    pub reason: Option<String>,
    /// The run it is about.
    pub run: u64,
    pub at: Timestamp,
}

/// What a node can say about a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObservedState {
    Progress,
    Running,
    Paused,
    Stopped,
    GuestOff,
    Failed,
    Unknown,
}

/// One host and why it did not do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostReason {
    pub node: String,
    pub node_id: u64,
    /// The filter that refused, or the step that failed.
    pub by: String,
    pub message: String,
}
