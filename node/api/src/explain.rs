//! Why a VM is where it is, or nowhere: every node with what its filters and weighers say now.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::time::Timestamp;
use crate::vm::{RefusedVm, TaskState, VmStatus};

/// The placement of one VM, explained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    pub vm: String,
    pub vm_id: Uuid,
    pub status: VmStatus,
    pub task_state: Option<TaskState>,
    /// Name of the node that holds it.
    pub node: Option<String>,
    /// A sentence that sums it up.
    pub summary: String,
    /// Every node, best first, those that refuse last.
    pub hosts: Vec<HostVerdict>,
    /// How its host was chosen; null while it was never placed.
    #[serde(default)]
    pub decision: Option<Decision>,
    /// Whom the scheduler would evict for it now; null when it fits somewhere, or that would not help, or the policy
    /// has preemption off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<Eviction>,
    /// What to do next about the nodes that refuse it, what concerns most nodes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
    /// Of a dry run with `count`: where each VM would go, in order. Of equally good nodes it is one: which, the VM's id
    /// draws, and the one that is created has another.
    #[serde(default)]
    pub placements: Vec<Planned>,
    /// Of a dry run with `count`: VMs that would not be created, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedVm>,
    /// What it asks for and nobody looks at; of a dry run, also what the operator should know of the cluster with these
    /// VMs. Empty when all is well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// True when nothing was created: the VM is only thought of.
    #[serde(default)]
    pub dry_run: bool,
}

/// A next step, and the nodes where it helps against the filter that refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Advice {
    /// The filter.
    pub by: String,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// A clause with commands, or options of `holm vm create`, in backquotes. In these, `NODE` is one of the nodes, and
    /// other capitals are for the reader to fill in.
    pub fix: String,
}

/// VMs of lesser priority that would leave a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Eviction {
    /// Name of the node.
    pub node: String,
    /// Names of the VMs, the greatest priority first.
    pub victims: Vec<String>,
}

/// Where a VM that is only thought of would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Planned {
    pub vm: String,
    /// Null when no host would be left for it.
    pub node: Option<String>,
    /// Why none would be, in numbers: how many nodes each filter refuses once the others have theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The record of the last decision about a VM. The state at `seen` and the policy of that time give the same again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    pub at: Timestamp,
    /// Revision of the entry that carried it out.
    pub revision: u64,
    /// Revision of the state the leader decided on.
    pub seen: u64,
    /// Revision of the scheduler policy it decided by.
    pub policy: u64,
    /// Name of the node; null where none fitted.
    pub chosen: Option<String>,
    /// How many nodes passed the filters.
    pub candidates: u32,
    /// Names of nodes that were not offered, because they might have been dead.
    #[serde(default)]
    pub withheld: Vec<String>,
    /// Names of VMs that were evicted to make room for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evicted: Vec<String>,
    /// The chosen node first, then the runners-up; at most three of those are kept.
    pub scores: Vec<Score>,
}

/// The last decision about a VM, made again on the state it was made on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Replay {
    pub vm: String,
    /// Whether it is the same, bit for bit.
    pub same: bool,
    /// What is not, in words.
    #[serde(default)]
    pub differences: Vec<String>,
    /// As it was recorded.
    pub decision: Decision,
    /// As it was made again.
    pub again: Decision,
}

/// A node's score in a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Score {
    pub node: String,
    pub node_id: u64,
    pub score: f64,
}

/// What one node's filters and weighers say of the VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostVerdict {
    pub node: String,
    pub node_id: u64,
    pub verdict: Verdict,
    /// The filter that refuses.
    pub by: Option<String>,
    /// Its reason.
    pub message: Option<String>,
    /// The filters that would refuse next, in the order they are asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Refusal>,
    /// Of a node that fits: the sum of the weights.
    pub score: Option<f64>,
    pub weights: Vec<Weight>,
}

/// A filter that refuses, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Refusal {
    /// The filter.
    pub by: String,
    /// Its reason.
    pub message: String,
}

/// In one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds the VM.
    Holds,
    Fits,
    Refuses,
}

/// What one weigher adds to the score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Weight {
    pub weigher: String,
    /// Multiplier × normalised weight.
    pub score: f64,
    /// As the weigher counts: MiB, vCPUs …
    #[serde(default)]
    pub raw: i64,
    /// Between 0 and 1 over the nodes that fit.
    #[serde(default)]
    pub normalised: f64,
    /// Negative where the weight counts against the node.
    #[serde(default)]
    pub multiplier: f64,
}
