//! What apply answers. A refusal is a replicated value, equal on every node.

use serde::{Deserialize, Serialize};

use crate::id::{AggregateId, FlavorId, GroupId, ImageId, NodeId, ProjectId, Revision, VmId, VolumeId};

/// The answer to one proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It took effect.
    Done(Done),
    /// It changed nothing.
    Rejected(Reason),
    /// The same key came before; this is what was answered then.
    Duplicate(Box<Reply>),
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Revision of the entry.
    pub revision: Revision,
    pub outcome: Outcome,
}

/// The subject of a change, so that its maker can look it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Nothing,
    Node(NodeId),
    Flavor(FlavorId),
    Image(ImageId),
    Vm(VmId),
    /// Which placements held, and why the others did not.
    Placed {
        refused: Vec<(VmId, Reason)>,
    },
    Aggregate(AggregateId),
    Group(GroupId),
    /// The VMs that were created, in order, and why the others were not.
    Vms {
        created: Vec<VmId>,
        refused: Vec<(VmId, Reason)>,
    },
    /// A report that was not taken, since another host reports as this node by now; that is noted.
    OtherHost(NodeId),
    Project(ProjectId),
    Volume(VolumeId),
    /// The moves that were begun, of so many planned, and why others were not.
    Moved {
        begun: Vec<Moved>,
        planned: u32,
        refused: Vec<(VmId, Reason)>,
    },
}

/// A move that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    pub vm: VmId,
    pub from: NodeId,
    pub to: NodeId,
    /// In millionths, as planned.
    pub gain: u64,
}

/// What a name or id refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Cluster,
    Node,
    Flavor,
    Image,
    Vm,
    Aggregate,
    Group,
    Policy,
    Quota,
    Project,
    Volume,
    /// Of a refusal only: an availability zone, which is what aggregates say it is.
    Zone,
    /// Of a refusal only: a node's label.
    Label,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cluster => "cluster",
            Self::Node => "node",
            Self::Flavor => "flavor",
            Self::Image => "image",
            Self::Vm => "VM",
            Self::Aggregate => "aggregate",
            Self::Group => "server group",
            Self::Policy => "scheduler policy",
            Self::Quota => "quota",
            Self::Project => "project",
            Self::Volume => "volume",
            Self::Zone => "zone",
            Self::Label => "label",
        })
    }
}

/// Why a proposal was refused. The text is for people; programs match the variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Reason {
    #[error("there is no {kind} `{id}`")]
    NotFound { kind: Kind, id: String },
    #[error("the {kind} name `{name}` is taken")]
    NameTaken { kind: Kind, name: String },
    #[error("{field}: {message}")]
    Invalid { field: String, message: String },
    #[error("it has changed since: expected revision {expected}, it is at {actual}")]
    RevisionMismatch { expected: Revision, actual: Revision },
    #[error("the {kind} `{name}` is in use by {}", .by.join(", "))]
    InUse { kind: Kind, name: String, by: Vec<String> },
    #[error("{message}")]
    WrongState { message: String },
    #[error("the idempotency key was used before with another request")]
    KeyReused,
    #[error(
        "the request is older than the idempotency window (it saw revision {seen}, the window begins at {window})"
    )]
    Expired { seen: Revision, window: Revision },
    #[error("the sender is not the leader of revision {current}")]
    StaleLeadership { current: Revision },
    #[error("the report is older than what is recorded, or about another placement")]
    StaleReport,
    #[error("{by}: {message}")]
    Infeasible { by: String, message: String },
    #[error("another placement of the same batch did not hold")]
    BatchRefused,
    #[error("limit reached: {message}")]
    Limit { message: String },
    #[error(
        "the quota of project `{project}` would be exceeded: {class}: {wanted} more wanted, {used} of {limit} in use"
    )]
    Quota { project: String, class: String, wanted: u64, used: u64, limit: u64 },
    /// No answer to the request itself, so it is not kept under its key: whoever asks judges anew and asks again.
    #[error("N+1 was not judged since revision {since}, when another failover VM or the policy came")]
    Unadmitted { since: Revision },
}
