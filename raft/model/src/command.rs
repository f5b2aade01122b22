//! What a log entry says. Commands are named and append-only: a name, once released, keeps its
//! meaning for ever, and fields are only added, with defaults. See README.md, "Add a command".

mod aggregate;
mod cluster;
mod group;
mod image;
mod node;
mod project;
mod vm;
mod volume;

use serde::{Deserialize, Serialize};

pub use self::aggregate::{CreateAggregate, DeleteAggregate, UpdateAggregate};
pub use self::cluster::{EndFreeze, SetClock, SetClusterPolicy, SetFreeze, SettleLeaseTtl, ShortenLease};
pub use self::group::{CreateGroup, DeleteGroup, UpdateGroup};
pub use self::image::{CreateImage, ReportImage};
pub use self::node::{
    AddNode, DrainRequest, FenceNode, RemoveNode, ReportNode, SetNodeDrain, SetNodeEnabled,
    SetNodeMaintenance, SetNodeUp, UnfenceNode, UpdateNode,
};
pub use self::project::{CreateProject, DeleteProject, UpdateProject};
pub use self::vm::{
    BatchFit, Choice, CreateVm, CreateVms, DeleteVm, EvacuateVm, MoveVms, NoHost, PlaceVms, Placement,
    PreemptVms, ReleaseCause, Released, Relocation, ReportVms, ResetVmState, RestartVm, SetVmPolicies,
    SetVmPower, StopForDrain, TaskOverdue, VacateVms, VmReport,
};
pub use self::volume::{CreateVolume, DeleteVolume};
use crate::flavor::Size;
use crate::id::{ClusterId, FlavorId, ImageId, Incarnation, NodeId, Revision, Timestamp};
use crate::version::RULES;

/// One entry of the replicated log, as the leader accepted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When the leader accepted it, by the leader's clock.
    pub at: Timestamp,
    pub proposal: Proposal,
    /// The leader's [`RULES`]; 0 before they were counted.
    #[serde(default, skip_serializing_if = "is_uncounted")]
    pub rules: u32,
}

fn is_uncounted(rules: &u32) -> bool {
    *rules == 0
}

impl Entry {
    /// `proposal` as a leader of this binary accepts it.
    pub fn new(at: Timestamp, proposal: Proposal) -> Self {
        Self { at, proposal, rules: RULES }
    }
}

/// The envelope round one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Makes the change happen once however often it is sent.
    #[serde(default)]
    pub key: Option<IdempotencyKey>,
    /// The revision its maker had applied. A keyed proposal older than the window is `Expired`.
    pub seen: Revision,
    pub actor: Actor,
    pub command: Command,
}

/// A client's idempotency key, together with a digest of what it asked for: the same key with another
/// body is a mistake and refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IdempotencyKey {
    /// 1 to 128 characters.
    pub key: String,
    /// SHA-256 of the request as the client made it, in lower-case hex.
    pub fingerprint: String,
}

/// On whose behalf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// `admin`, `node/3`, `controller/placement` …
    pub name: String,
    /// The project whose names and keys are meant.
    pub project: String,
}

/// One change. Applied in log order by every replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// The first entry of a cluster.
    InitCluster(InitCluster),
    /// First act of every process that becomes leader (FENCING.md, rule 4).
    BeginLeadership(BeginLeadership),
    AddNode(AddNode),
    ReportNode(ReportNode),
    SetNodeUp(SetNodeUp),
    SetNodeEnabled(SetNodeEnabled),
    RemoveNode(RemoveNode),
    CreateFlavor(CreateFlavor),
    DeleteFlavor(DeleteFlavor),
    CreateImage(CreateImage),
    ReportImage(ReportImage),
    DeleteImage(DeleteImage),
    CreateVm(CreateVm),
    PlaceVms(PlaceVms),
    NoHost(NoHost),
    SetVmPower(SetVmPower),
    DeleteVm(DeleteVm),
    ReportVms(ReportVms),
    Released(Released),
    UpdateNode(UpdateNode),
    CreateAggregate(CreateAggregate),
    UpdateAggregate(UpdateAggregate),
    DeleteAggregate(DeleteAggregate),
    CreateGroup(CreateGroup),
    UpdateGroup(UpdateGroup),
    DeleteGroup(DeleteGroup),
    SetSchedulerPolicy(SetSchedulerPolicy),
    SetQuota(SetQuota),
    CreateVms(CreateVms),
    FenceNode(FenceNode),
    UnfenceNode(UnfenceNode),
    SetNodeDrain(SetNodeDrain),
    SetNodeMaintenance(SetNodeMaintenance),
    SetClusterPolicy(SetClusterPolicy),
    SettleLeaseTtl(SettleLeaseTtl),
    SetFreeze(SetFreeze),
    EndFreeze(EndFreeze),
    SetVmPolicies(SetVmPolicies),
    VacateVms(VacateVms),
    StopForDrain(StopForDrain),
    RestartVm(RestartVm),
    TaskOverdue(TaskOverdue),
    EvacuateVm(EvacuateVm),
    ResetVmState(ResetVmState),
    PreemptVms(PreemptVms),
    MoveVms(MoveVms),
    SetClock(SetClock),
    CreateProject(CreateProject),
    UpdateProject(UpdateProject),
    DeleteProject(DeleteProject),
    CreateVolume(CreateVolume),
    DeleteVolume(DeleteVolume),
    ShortenLease(ShortenLease),
}

impl Command {
    /// The command's name in the log; the reader of a refusal or a log line sees it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::InitCluster(_) => "InitCluster",
            Self::BeginLeadership(_) => "BeginLeadership",
            Self::AddNode(_) => "AddNode",
            Self::ReportNode(_) => "ReportNode",
            Self::SetNodeUp(_) => "SetNodeUp",
            Self::SetNodeEnabled(_) => "SetNodeEnabled",
            Self::RemoveNode(_) => "RemoveNode",
            Self::CreateFlavor(_) => "CreateFlavor",
            Self::DeleteFlavor(_) => "DeleteFlavor",
            Self::CreateImage(_) => "CreateImage",
            Self::ReportImage(_) => "ReportImage",
            Self::DeleteImage(_) => "DeleteImage",
            Self::CreateVm(_) => "CreateVm",
            Self::PlaceVms(_) => "PlaceVms",
            Self::NoHost(_) => "NoHost",
            Self::SetVmPower(_) => "SetVmPower",
            Self::DeleteVm(_) => "DeleteVm",
            Self::ReportVms(_) => "ReportVms",
            Self::Released(_) => "Released",
            Self::UpdateNode(_) => "UpdateNode",
            Self::CreateAggregate(_) => "CreateAggregate",
            Self::UpdateAggregate(_) => "UpdateAggregate",
            Self::DeleteAggregate(_) => "DeleteAggregate",
            Self::CreateGroup(_) => "CreateGroup",
            Self::UpdateGroup(_) => "UpdateGroup",
            Self::DeleteGroup(_) => "DeleteGroup",
            Self::SetSchedulerPolicy(_) => "SetSchedulerPolicy",
            Self::SetQuota(_) => "SetQuota",
            Self::CreateVms(_) => "CreateVms",
            Self::FenceNode(_) => "FenceNode",
            Self::UnfenceNode(_) => "UnfenceNode",
            Self::SetNodeDrain(_) => "SetNodeDrain",
            Self::SetNodeMaintenance(_) => "SetNodeMaintenance",
            Self::SetClusterPolicy(_) => "SetClusterPolicy",
            Self::SettleLeaseTtl(_) => "SettleLeaseTtl",
            Self::SetFreeze(_) => "SetFreeze",
            Self::EndFreeze(_) => "EndFreeze",
            Self::SetVmPolicies(_) => "SetVmPolicies",
            Self::VacateVms(_) => "VacateVms",
            Self::StopForDrain(_) => "StopForDrain",
            Self::RestartVm(_) => "RestartVm",
            Self::TaskOverdue(_) => "TaskOverdue",
            Self::EvacuateVm(_) => "EvacuateVm",
            Self::ResetVmState(_) => "ResetVmState",
            Self::PreemptVms(_) => "PreemptVms",
            Self::MoveVms(_) => "MoveVms",
            Self::SetClock(_) => "SetClock",
            Self::CreateProject(_) => "CreateProject",
            Self::UpdateProject(_) => "UpdateProject",
            Self::DeleteProject(_) => "DeleteProject",
            Self::CreateVolume(_) => "CreateVolume",
            Self::DeleteVolume(_) => "DeleteVolume",
            Self::ShortenLease(_) => "ShortenLease",
        }
    }
}

/// Names the cluster and its first node. Refused when the cluster already has a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitCluster {
    pub cluster: ClusterId,
    pub name: String,
    pub first_node: AddNode,
}

/// A process has become leader; controllers' commands carry the revision of this entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginLeadership {
    pub node: NodeId,
    pub term: u64,
    pub incarnation: Incarnation,
}

/// A new flavor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateFlavor {
    pub id: FlavorId,
    pub name: String,
    pub size: Size,
    #[serde(default)]
    pub extra_specs: std::collections::BTreeMap<String, String>,
}

/// Removes a flavor; VMs keep the sizes they were created with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteFlavor {
    pub id: FlavorId,
    /// The revision the client saw (`If-Match`), if it cares.
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// Removes an image; refused while a VM uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteImage {
    pub id: ImageId,
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// Replaces the scheduler's policy; none goes back to the default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetSchedulerPolicy {
    /// Its `revision` is not read: apply sets it.
    pub policy: Option<crate::policy::SchedulerPolicy>,
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// Changes limits of a project; none lifts the limit of that class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetQuota {
    pub project: String,
    pub limits: std::collections::BTreeMap<crate::resources::ResourceClass, Option<u64>>,
}
