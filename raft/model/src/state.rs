//! The replicated state: maps of records and the counters beside them. Maps are persistent, so a clone
//! is cheap and readers never hold up apply.

use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};

use crate::aggregate::Aggregate;
use crate::cluster_policy::{ClusterPolicy, Freeze};
use crate::event::Ring;
use crate::flavor::Flavor;
use crate::group::ServerGroup;
use crate::id::{
    AggregateId, ClusterId, FlavorId, GroupId, ImageId, Incarnation, NodeId, Revision, Timestamp, VmId,
    VolumeId,
};
use crate::image::Image;
use crate::nodes::Nodes;
use crate::policy::SchedulerPolicy;
use crate::project::Project;
use crate::resources::Resources;
use crate::vm::Vm;
use crate::volume::Volume;
use crate::window::Window;

/// Everything the cluster agrees on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Count of applied commands.
    pub revision: Revision,
    /// None until `InitCluster`.
    pub cluster: Option<Cluster>,
    /// Whose decisions are accepted; none until the first `BeginLeadership`.
    pub leadership: Option<Leadership>,
    /// The highest node id ever given out.
    pub last_node_id: NodeId,
    pub nodes: Nodes,
    pub flavors: OrdMap<FlavorId, Flavor>,
    pub images: OrdMap<ImageId, Image>,
    pub vms: OrdMap<VmId, Vm>,
    /// VMs without a claim in BUILD: the scheduler's queue.
    pub waiting: OrdSet<VmId>,
    /// VMs by the node that holds their claim.
    pub vms_by_node: OrdMap<NodeId, OrdSet<VmId>>,
    /// VMs in BUILD that hold a claim, by its node: what is being written there. Follows from `vms`, so
    /// snapshots leave it out.
    #[serde(skip)]
    pub building: OrdSet<(NodeId, VmId)>,
    /// VM ids by (project, name).
    pub vm_names: OrdMap<(String, String), VmId>,
    #[serde(default)]
    pub aggregates: OrdMap<AggregateId, Aggregate>,
    #[serde(default)]
    pub groups: OrdMap<GroupId, ServerGroup>,
    /// Members of each group that has any.
    #[serde(default)]
    pub group_members: OrdMap<GroupId, OrdSet<VmId>>,
    /// How many members of a group hold a claim on a node, where any does. Follows from `vms`, so snapshots leave it out.
    #[serde(skip)]
    pub group_hosts: OrdMap<(GroupId, NodeId), u32>,
    #[serde(default, skip_serializing_if = "OrdMap::is_empty")]
    pub volumes: OrdMap<VolumeId, Volume>,
    #[serde(default)]
    pub scheduler: SchedulerPolicy,
    /// Leases and fencing.
    #[serde(default, skip_serializing_if = "ClusterPolicy::is_default")]
    pub policy: ClusterPolicy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze: Option<Freeze>,
    /// By name; `default` only once something was said of it.
    #[serde(default, skip_serializing_if = "OrdMap::is_empty")]
    pub projects: OrdMap<String, Project>,
    /// When a VM that takes room was last admitted by a policy that refuses ([`crate::policy::NPlusOne::Refuse`]), before
    /// the rules of number 2 one that may fail over: a judgement of N+1 from before says nothing about now.
    #[serde(default, skip_serializing_if = "is_never")]
    pub admitted: Revision,
    /// Limits by project.
    #[serde(default)]
    pub quotas: OrdMap<String, Resources>,
    /// What each project's VMs count, kept by apply.
    #[serde(default)]
    pub usage: OrdMap<String, Resources>,
    pub window: Window,
    pub events: Ring,
}

fn is_never(revision: &Revision) -> bool {
    *revision == Revision::default()
}

/// The cluster's own record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    pub id: ClusterId,
    pub name: String,
    pub created_at: Timestamp,
    /// The format version all members speak (see [`crate::version`]).
    pub version: u32,
}

/// The process whose controllers may decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leadership {
    pub node: NodeId,
    pub term: u64,
    pub incarnation: Incarnation,
    /// Revision of the `BeginLeadership`.
    pub revision: Revision,
    pub at: Timestamp,
}
