//! Commands about VMs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::{BootId, Epoch, FlavorId, ImageId, NodeId, Revision, VmId};
use crate::scheduling::Scheduling;
use crate::vm::{Availability, HostReason, ObservedState, OnNoHost, Score, StopMode, WantPower};

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
    #[serde(default)]
    pub on_no_host: OnNoHost,
    #[serde(default, skip_serializing_if = "Scheduling::is_empty")]
    pub scheduling: Scheduling,
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
    /// The chosen host first, then the runners-up.
    pub scores: Vec<Score>,
}

/// The leader found no host: keep the reasons; with `give_up`, the VM goes to ERROR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoHost {
    /// Revision of the sender's `BeginLeadership`.
    pub leadership: Revision,
    pub vm: VmId,
    pub refusals: Vec<HostReason>,
    pub give_up: bool,
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
}
