//! Commands about VMs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::id::{BootId, Epoch, FlavorId, ImageId, NodeId, Revision, VmId, VolumeId};
use crate::scheduling::Scheduling;
use crate::vm::{
    Availability, DiskLoss, HostReason, ObservedState, OnNoHost, RestartPolicy, Score, StopMode, TaskState,
    VmPolicies, WantPower,
};

/// A new VM: the record is committed first, placed afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateVm {
    pub id: VmId,
    pub name: String,
    pub flavor: FlavorId,
    pub image: ImageId,
    #[serde(default)]
    pub kernel: Option<ImageId>,
    #[serde(default)]
    pub cmdline: Option<String>,
    #[serde(default)]
    pub node: Option<NodeId>,
    #[serde(default)]
    pub availability: Availability,
    #[serde(default, skip_serializing_if = "is_default")]
    pub policies: VmPolicies,
    #[serde(default)]
    pub on_no_host: OnNoHost,
    #[serde(default, skip_serializing_if = "Scheduling::is_empty")]
    pub scheduling: Scheduling,
    /// The revision at which N+1 was judged with it and held; 0 if it was not. Absent in entries from before apply
    /// asked: they mean what they meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admitted: Option<Revision>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeId>,
}

/// Several VMs in one entry. `atomic`: all are created or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateVms {
    pub items: Vec<CreateVm>,
    #[serde(default)]
    pub atomic: bool,
}

/// The leader's decision for waiting VMs. Each placement is re-checked at apply; with `atomic`, all
/// hold or none does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceVms {
    /// Revision of the sender's `BeginLeadership`.
    pub leadership: Revision,
    pub placements: Vec<Placement>,
    #[serde(default)]
    pub atomic: bool,
}

/// One VM and the node chosen for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    pub vm: VmId,
    pub node: NodeId,
    /// How it was chosen, for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
}

/// What the leader saw when it chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Revision of the state decided on.
    pub seen: Revision,
    /// Nodes that were not offered, because they might have been dead.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub withheld: BTreeSet<NodeId>,
    pub candidates: u32,
    /// The chosen host first, then the runners-up; empty where none fitted.
    pub scores: Vec<Score>,
    /// Revision of the policy decided by, which may be another when this is applied. Those who do not tell mean the one
    /// that is in force then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Revision>,
}

/// The leader found no host: keep the reasons; with `give_up`, the VM goes to ERROR. The reasons may be those of some
/// nodes only: then `counts` says how many each filter refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoHost {
    /// Revision of the sender's `BeginLeadership`.
    pub leadership: Revision,
    pub vm: VmId,
    pub refusals: Vec<HostReason>,
    pub give_up: bool,
    /// Nodes by the filter that refused; empty where `refusals` has them all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u32>,
    /// The host to keep for it; none ends what was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<NodeId>,
    /// The hosts where it failed to build may be tried again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
    /// What was decided on, for the record; without it the record of the last decision stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// The VM waits with its whole batch, and this is said of all of it; the reasons are those of the first VM too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchFit>,
    /// VMs of which the same is said: hundreds that are alike fit nowhere for one reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<VmId>,
}

/// How many VMs of an atomic batch fit at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchFit {
    pub fit: u32,
    pub of: u32,
}

/// Start, stop or reboot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetVmPower {
    pub vm: VmId,
    pub want: WantPower,
    /// With `want: On` on a VM that is on: end this run and begin the next.
    #[serde(default)]
    pub reboot: bool,
    pub stop: StopMode,
    /// As in [`CreateVm`]: one that is off is none that must be held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admitted: Option<Revision>,
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// The VM is to go, with its disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteVm {
    pub vm: VmId,
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// A node says how its VMs are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportVms {
    pub node: NodeId,
    pub boot_id: BootId,
    /// Rises with every report of this node, also across daemon restarts of one boot.
    pub sequence: u64,
    pub reports: Vec<VmReport>,
}

/// One VM of a [`ReportVms`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmReport {
    pub vm: VmId,
    pub epoch: Epoch,
    pub run: u64,
    pub state: ObservedState,
    /// Whatever runs of it is bound to the node's lease, as the availability of that revision asked
    /// (FENCING.md, rule 12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub armed_for: Option<Revision>,
    /// What is not as asked although it runs, for the record's reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A node has durably marked an epoch released and will never start it again: its claim ends
/// (FENCING.md, rules 1 and 2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    pub node: NodeId,
    pub vm: VmId,
    pub epoch: Epoch,
    pub cause: ReleaseCause,
}

/// Why a node gave a claim back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleaseCause {
    /// The VM was to be deleted and is gone.
    Deleted,
    /// It could not be built here; another host may try.
    BuildFailed { reason: String },
    /// It was to leave this node, and has.
    Vacated,
}

/// Changes how a VM is kept running. What is not given stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetVmPolicies {
    pub vm: VmId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability: Option<Availability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_loss: Option<DiskLoss>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<RestartPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_order: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_delay_s: Option<u32>,
    /// The VM is bound to the node it was created for no longer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_node: bool,
    /// As in [`CreateVm`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admitted: Option<Revision>,
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// The leader asks VMs to leave their nodes: for a drain, a more important VM, a better balance. Each is checked
/// on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacateVms {
    /// Revision of the sender's `BeginLeadership`.
    pub leadership: Revision,
    pub vms: Vec<VmId>,
    pub reason: String,
    pub stop: StopMode,
}

/// VMs leave a node for one of greater priority that fits nowhere (preemption). All of them or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreemptVms {
    /// Revision of the sender's `BeginLeadership`.
    pub leadership: Revision,
    /// The one that waits; the node is kept for it.
    pub vm: VmId,
    pub node: NodeId,
    pub victims: Vec<VmId>,
    pub stop: StopMode,
}

/// An operator moves VMs, for a better balance. Each is checked on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveVms {
    pub moves: Vec<Relocation>,
    pub stop: StopMode,
    /// How many moves the plan has that these are of, when each is to begin only if its node takes it as things stand.
    /// Absent in entries from before that was asked: they mean what they meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u32>,
    /// As in [`CreateVm`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admitted: Option<Revision>,
}

/// One VM of a [`MoveVms`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relocation {
    pub vm: VmId,
    /// Of the placement that the plan was made for.
    pub epoch: Epoch,
    pub to: NodeId,
    /// What it gains, in millionths: for the answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gain: u64,
}

/// The drain of its node stops a pinned VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopForDrain {
    /// Revision of the sender's `BeginLeadership`.
    pub leadership: Revision,
    pub vms: Vec<VmId>,
}

/// The pause before a restart by policy is over: the next run begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartVm {
    /// Revision of the sender's `BeginLeadership`.
    pub leadership: Revision,
    pub vm: VmId,
    /// The run that ended.
    pub run: u64,
}

/// A step took longer than it may: its owner is given up on, and the record says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOverdue {
    /// Revision of the sender's `BeginLeadership`.
    pub leadership: Revision,
    pub vm: VmId,
    pub task_state: TaskState,
    pub run: u64,
}

/// The operator stated that the VM's node is off: its claim ends, its disk there is given up, and it is placed
/// anew (FENCING.md, rule 1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvacuateVm {
    pub vm: VmId,
    pub confirm_node_off: bool,
    /// As in [`CreateVm`]: elsewhere it takes room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admitted: Option<Revision>,
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// Takes a VM out of a transitional state by hand. The claim stays as it is; the node's next report moves the
/// status on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResetVmState {
    pub vm: VmId,
    #[serde(default)]
    pub expected: Option<Revision>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
