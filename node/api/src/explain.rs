//! Why a VM is where it is, or nowhere: every node with what its filters and weighers say now.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::vm::{TaskState, VmStatus};

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
    /// Of a node that fits: the sum of the weights.
    pub score: Option<f64>,
    pub weights: Vec<Weight>,
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
}
