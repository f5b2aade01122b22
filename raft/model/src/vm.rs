//! A VM: the record of what was asked for, where it was placed and what its node last reported.
//!
//! ```text
//!            CreateVm                PlaceVms               report Running
//!   (none) ───────────► BUILD ───────────────► BUILD ───────────────────────► ACTIVE ◄──────┐
//!                     scheduling   claim(epoch) spawning                     │   │   │      │ start
//!                        ▲  │                     │ Released(BuildFailed)    │   │   │      │
//!                        │  │ no host, or three   │                  paused ◄┘   │   │ off  │
//!                        └──┼── hosts failed ─────┤                              │   └────► SHUTOFF
//!                           ▼                     ▼                 VMM died     ▼
//!                         ERROR ◄──────────────────────────────────────────── ERROR
//!
//!   any ── DeleteVm ──► DELETING ── Released(Deleted), at once where there is no claim ──► (none)
//! ```
//!
//! A claim begins with `PlaceVms` and ends only by its own node's `Released`, by a fence (failover VMs
//! only) or by an operator's statement that the node is off (FENCING.md, rule 1): no status frees it.

mod recovery;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::flavor::Size;
use crate::id::{BootId, Epoch, FlavorId, ImageId, NodeId, Revision, Timestamp, VmId, VolumeId};
use crate::parts::Parts;
use crate::resources::Resources;
use crate::scheduling::Scheduling;

pub use self::recovery::{Recovery, Vacate};

/// One VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    pub id: VmId,
    pub project: String,
    /// Unique within the project.
    pub name: String,
    pub spec: VmSpec,
    pub power: Power,
    pub status: VmStatus,
    pub task_state: Option<TaskState>,
    /// Why the status is what it is, where that is not plain: the last error, or what is waited for.
    pub fault: Option<Fault>,
    pub claim: Option<Claim>,
    /// The latest report of the node that holds the claim.
    pub observed: Option<Observed>,
    /// Hosts where this VM failed to build, and why: [`MAX_BUILD_HOSTS`] a round. Then ERROR; one that failed over is
    /// tried on others after a pause, and when there are none left, on all again.
    pub excluded: Vec<HostReason>,
    /// Why hosts refused it at the last decision, of some only where they are many; the fault counts all. Empty once
    /// placed.
    pub refusals: Vec<HostReason>,
    /// While it waits: the atomic batch it was created in, by the id of its first VM. All of them get hosts in one entry,
    /// or none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<VmId>,
    /// While it waits: the host that is kept for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Reservation>,
    /// How its host was chosen, or that none fitted; none while nothing was decided.
    #[serde(default)]
    pub decision: Option<Decision>,
    /// While it waits unplaced: from when the build time-out counts.
    pub waiting_since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Recovery::is_default")]
    pub recovery: Recovery,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub revision: Revision,
}

impl Vm {
    /// Its entry in [`crate::State::building`], if it belongs there.
    pub fn building(&self) -> Option<(NodeId, VmId)> {
        let claim = self.claim.as_ref().filter(|_| self.status == VmStatus::Build)?;
        Some((claim.node, self.id))
    }

    /// Whether it is in the queue, as [`crate::State::waiting`] says.
    pub fn waits(&self) -> bool {
        self.status == VmStatus::Build && self.claim.is_none()
    }

    /// On how many hosts it failed to build in this round.
    pub fn failed_this_round(&self) -> usize {
        self.excluded.len().saturating_sub(self.recovery.tried_before as usize)
    }

    /// Whether it failed to build on so many hosts that it, rather than they, is at fault: no other is tried in this
    /// round.
    pub fn has_spent_its_round(&self) -> bool {
        self.failed_this_round() >= MAX_BUILD_HOSTS
    }

    /// It may be built anywhere again, as if it had never been tried.
    pub fn forget_failed_builds(&mut self) {
        self.excluded.clear();
        (self.recovery.tried_before, self.recovery.build_rounds) = (0, 0);
    }
}

/// What was asked for at creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmSpec {
    pub flavor: FlavorId,
    pub flavor_name: String,
    pub size: Size,
    pub image: ImageId,
    /// Boots a disk image with this kernel image instead of the node's firmware.
    #[serde(default)]
    pub kernel: Option<ImageId>,
    /// Kernel command line.
    #[serde(default)]
    pub cmdline: Option<String>,
    /// The only node the operator allows.
    #[serde(default)]
    pub node: Option<NodeId>,
    /// As asked for; what is in force stands in the [`Claim`].
    #[serde(default)]
    pub availability: Availability,
    #[serde(default, skip_serializing_if = "VmPolicies::is_default")]
    pub policies: VmPolicies,
    #[serde(default)]
    pub on_no_host: OnNoHost,
    #[serde(default, skip_serializing_if = "Scheduling::is_empty")]
    pub scheduling: Scheduling,
    /// The flavor's extra specs and the image's properties, as they were at creation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_specs: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub image_properties: BTreeMap<String, String>,
    /// Shared volumes, after the root disk, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeId>,
}

/// Whether a VM may be restarted on another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Availability {
    /// It runs through any control-plane trouble and waits for its node.
    #[default]
    Pinned,
    /// It stops with its node's lease, and comes back elsewhere once that node is fenced.
    Failover,
}

impl Availability {
    pub fn is_pinned(&self) -> bool {
        *self == Self::Pinned
    }
}

/// What a user may say, and later change, of how a VM is kept running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VmPolicies {
    #[serde(skip_serializing_if = "is_default")]
    pub disk_loss: DiskLoss,
    #[serde(skip_serializing_if = "is_default")]
    pub restart_policy: RestartPolicy,
    /// After a boot of its host, lower goes first; equal ones start together.
    #[serde(skip_serializing_if = "is_default")]
    pub start_order: i32,
    /// After a boot of its host, wait this long once those of lower order have started.
    #[serde(skip_serializing_if = "is_default")]
    pub start_delay_s: u32,
}

impl VmPolicies {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What may become of a local disk when the VM is moved or its host is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskLoss {
    /// It holds something: the VM stays with it.
    #[default]
    Refuse,
    /// It is written anew from the image.
    Recreate,
}

/// Whether a run that ended by itself is followed by another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    /// Also when the guest powered itself off.
    Always,
    /// When the VMM failed.
    OnFailure,
    #[default]
    Never,
}

impl Vm {
    /// Whether its claim is one that a fence frees.
    pub fn is_failover_in_force(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.availability == Availability::Failover)
    }

    /// Whether a fence of its node takes it away. One that is off stays with its disk until somebody wants it on.
    pub fn fails_over(&self) -> bool {
        self.is_failover_in_force() && (self.power.want == WantPower::On || self.status == VmStatus::Deleting)
    }

    /// Why it cannot be moved to another node by an operator's word, as things stand.
    ///
    /// # Errors
    /// The obstacle, and what would clear it.
    pub fn may_move(&self) -> Result<(), String> {
        let off = self.power.want == WantPower::Off && self.task_state.is_none();
        let failover = self.is_failover_in_force();
        if self.claim.is_none() {
            return Err("it is on no node".to_owned());
        }
        if self.status == VmStatus::Deleting || self.recovery.vacate.is_some() {
            return Err("it leaves its node already".to_owned());
        }
        if self.recovery.stopped_for.is_some() {
            return Err("the drain of its node stopped it, and starts it again when it is over".to_owned());
        }
        if self.spec.node.is_some() {
            return Err(
                "it was created for that node only; `holm vm set NAME --any-node` frees it".to_owned()
            );
        }
        if !self.spec.is_movable() {
            return Err("its local disk holds something (`disk_loss: refuse`)".to_owned());
        }
        if !off && !failover {
            return Err("it runs and is pinned, and there is no live migration: stop it first".to_owned());
        }
        if !off && self.task_state.is_some() {
            return Err("it is in the middle of something".to_owned());
        }
        Ok(())
    }
}

impl VmSpec {
    /// Whether it may leave its node without anybody missing its disk.
    pub fn is_movable(&self) -> bool {
        self.size.disk_gib == 0 || self.policies.disk_loss == DiskLoss::Recreate
    }
}

/// What happens when no host fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnNoHost {
    /// Wait, with the reasons shown, until the build time-out.
    #[default]
    Queue,
    /// ERROR at once.
    Fail,
}

/// Desired power. `run` counts the power-ons asked for: a node starts each run once, and a reboot is
/// the next run, so that a lost message neither repeats nor loses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Power {
    pub want: WantPower,
    pub run: u64,
    /// How the run before this one, or the running one, is to end.
    pub stop: StopMode,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WantPower {
    On,
    Off,
}

/// How to end a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopMode {
    /// ACPI power button, then power off after this long.
    Graceful { timeout_s: u32 },
    /// Power off at once.
    Force,
}

/// The status shown to a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

/// The step a transitional status is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    Scheduling,
    Spawning,
    PoweringOn,
    PoweringOff,
    Rebooting,
    Deleting,
    /// Its run ended, and its restart policy begins the next at `next_restart_at`.
    Restarting,
    /// It leaves its node to be placed on another.
    Moving,
}

/// What went wrong, where and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub message: String,
    pub node: Option<NodeId>,
    pub at: Timestamp,
}

/// The record of the last decision about a VM: it was placed, or no host fitted. The same state, at `seen`, and the same
/// policy give the same decision again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub at: Timestamp,
    /// Revision of the entry that carried it out.
    pub revision: Revision,
    /// Revision of the state the leader decided on.
    pub seen: Revision,
    /// Revision of the policy it decided by.
    pub policy: Revision,
    /// Nodes the leader did not offer, because they might have been dead.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub withheld: BTreeSet<NodeId>,
    /// VMs that were evicted to make room for it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub evicted: BTreeSet<VmId>,
    /// How many hosts passed the filters.
    pub candidates: u32,
    /// The best hosts and their scores, the chosen one first; at most [`RUNNERS_UP_MAX`] + 1. Empty where none fitted.
    pub scores: Vec<Score>,
}

/// A host's score, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    pub node: NodeId,
    pub score_millionths: i64,
}

/// How many hosts that were not chosen a decision keeps.
pub const RUNNERS_UP_MAX: usize = 3;

/// What a VM holds of its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub node: NodeId,
    pub epoch: Epoch,
    pub resources: Resources,
    /// Parts of the host that it holds for itself.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub parts: Parts,
    /// In force: `Failover` only while whatever runs of it is bound to the node's lease.
    #[serde(default, skip_serializing_if = "Availability::is_pinned")]
    pub availability: Availability,
}

/// A host kept for a VM that has long waited: those behind it in the queue may take there only what it
/// would leave over, were everything gone that was there when the reservation began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    pub node: NodeId,
    /// Claims of later epochs count against what is left over.
    pub since: Revision,
    /// VMs that leave the node for it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub evicted: BTreeSet<VmId>,
}

/// One host and why it did not do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostReason {
    pub node: NodeId,
    /// The filter that refused, or the step that failed.
    pub by: String,
    pub message: String,
}

/// What the node last said about a VM it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    pub boot_id: BootId,
    /// Counts a node's reports within one boot; older ones are ignored.
    pub sequence: u64,
    /// The run (see [`Power`]) the report is about.
    pub run: u64,
    pub state: ObservedState,
    pub at: Timestamp,
}

/// What a node can say about a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObservedState {
    /// Work toward the record goes on; the text says which step (`fetching image 40 %`).
    Progress {
        step: String,
    },
    Running,
    Paused,
    /// Off as the record asked.
    Stopped,
    /// The guest powered itself off.
    GuestOff,
    /// The VMM ended, or had to be ended, and nobody asked for it.
    Failed {
        reason: String,
    },
    /// The VMM does not answer; the last known state stands.
    Unknown {
        reason: String,
    },
}

/// What [`Claim`]s hold beside the flavor's memory: the VMM's own overhead on the host, in MiB.
pub const VMM_OVERHEAD_MIB: u64 = 16;
/// Power-off after this long when a guest does not answer the power button, unless asked otherwise.
pub const DEFAULT_STOP_TIMEOUT_S: u32 = 60;
/// A VM that failed to build on this many hosts goes to ERROR, or pauses if it failed over; Nova's `max_attempts`.
pub const MAX_BUILD_HOSTS: usize = 3;
/// A VM that its policy restarted [`RESTARTS_MAX`] times within this long is in a crash loop.
pub const RESTART_WINDOW_MS: u64 = 600_000;
/// Restarts within the window before its policy gives up.
pub const RESTARTS_MAX: u32 = 5;
/// Pause before the first restart; doubled with each, up to [`RESTART_PAUSE_MAX_MS`].
pub const RESTART_PAUSE_MS: u64 = 1_000;
/// Longest pause before a restart.
pub const RESTART_PAUSE_MAX_MS: u64 = 60_000;
/// Longest start-up delay, in seconds.
pub const START_DELAY_S_MAX: u32 = 3_600;
