//! REST types of Holm, version 1, shared by the node and the CLI: one module a resource, the problem
//! body every failure has, and the names of Holm's headers. Plain data: no IO, no rules of the model.

pub mod aggregate;
pub mod candidates;
pub mod cluster;
pub mod deleted;
pub mod drain;
pub mod event;
pub mod explain;
pub mod flavor;
pub mod group;
pub mod header;
pub mod health;
pub mod image;
pub mod keep;
pub mod list;
pub mod node;
pub mod policy;
pub mod problem;
pub mod project;
pub mod query;
pub mod quota;
pub mod rebalance;
pub mod scheduler;
pub mod scheduling;
pub mod time;
pub mod vm;
pub mod volume;
pub mod what_if;

pub use aggregate::{Aggregate, AvailabilityZone, CreateAggregate, PatchAggregate};
pub use candidates::{AllocationCandidates, Candidate, ClassSummary, ProviderSummary};
pub use cluster::{Checkpoint, Cluster, Member, Role};
pub use deleted::Deleted;
pub use drain::{BeginMaintenance, DrainNode, DrainProgress, LeftVm, NextForVm};
pub use event::{Event, EventKind};
pub use explain::{
    Advice, Decision, Eviction, Explanation, HostVerdict, Planned, Refusal, Replay, Score, Verdict, Weight,
};
pub use flavor::{CreateFlavor, Flavor};
pub use group::{CreateServerGroup, GroupMember, GroupPolicy, PatchServerGroup, ServerGroup};
pub use health::Health;
pub use image::{Image, ImageKind};
pub use keep::{Availability, DiskLoss, EvacuateVm, PatchVm, RestartPolicy};
pub use list::List;
pub use node::{
    Condition, DrainPinned, Fence, Hypervisor, HypervisorKind, Inventory, InventoryOverride, LostVm,
    Maintenance, Node, NodeDrain, NodeRef, Orphan, PatchInventory, PatchNode, PciDevice,
};
pub use policy::{BeginFreeze, Bounded, ClusterPolicy, Freeze, PatchClusterPolicy};
pub use problem::{Code, Problem, QuotaExceeded};
pub use project::{CreateProject, PatchProject, Project};
pub use query::{
    CandidatesQuery, Consistency, CreateImageQuery, CreateVmQuery, DrainQuery, EventsQuery, ListQuery,
    LogQuery, ProjectListQuery, ReadQuery, RemoveNodeQuery, VmListQuery,
};
pub use quota::{Quota, QuotaClass, SetQuota};
pub use rebalance::{PlannedMove, Rebalance, RebalanceQuery, RefusedMove, StartRebalance, Staying};
pub use scheduler::{NPlusOne, SchedulerPolicy, SetSchedulerPolicy};
pub use scheduling::{Effect, Operator, Requirement, Scheduling, Taint, Toleration};
pub use time::Timestamp;
pub use vm::{CreateVm, CreatedVms, RebootVm, RefusedVm, StopVm, Vm, VmStatus};
pub use volume::{CreateVolume, Volume, VolumeLock};
pub use what_if::{Move, NPlusOneVerdict, NodeLoss, Stay, WhatIf};
