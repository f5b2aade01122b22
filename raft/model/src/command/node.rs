//! Commands about nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::id::{BootId, NodeId, Revision};
use crate::node::{DrainPinned, NodeReport};
use crate::resources::{InventoryOverride, ResourceClass};
use crate::scheduling::Taint;

/// A new member. The id is given out by the state machine; the reply carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddNode {
    pub name: String,
    pub peer_addr: String,
    pub api_addr: String,
}

/// A node says what it is and has. Replaces its earlier report; refused when older.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportNode {
    pub node: NodeId,
    /// Rises with every report of this node within one boot, also across daemon restarts.
    pub sequence: u64,
    /// Its addresses may change between starts.
    pub peer_addr: String,
    pub api_addr: String,
    pub report: NodeReport,
}

/// The leader hears a node again, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetNodeUp {
    /// Revision of the sender's `BeginLeadership`.
    pub leadership: Revision,
    pub node: NodeId,
    pub up: bool,
}

/// Cordon (`enabled: false`) or uncordon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetNodeEnabled {
    pub node: NodeId,
    pub enabled: bool,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// Removes a member for good; its id is never used again. Refused while claims exist, unless the
/// operator states that the machine is off (FENCING.md, rule 19).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveNode {
    pub node: NodeId,
    #[serde(default)]
    pub confirm_node_off: bool,
}

/// Changes what an operator says of a node; `None` as a value removes the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateNode {
    pub node: NodeId,
    #[serde(default)]
    pub labels: BTreeMap<String, Option<String>>,
    /// Replaces all of them.
    #[serde(default)]
    pub taints: Option<BTreeSet<Taint>>,
    /// Replaces all that were given by operators.
    #[serde(default)]
    pub traits: Option<BTreeSet<String>>,
    #[serde(default)]
    pub inventory: BTreeMap<ResourceClass, Option<InventoryOverride>>,
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// All leases this node may hold have ended: its failover VMs are taken from it (FENCING.md, rules 7, 8, 19).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceNode {
    /// Revision of the sender's `BeginLeadership`.
    pub leadership: Revision,
    pub node: NodeId,
}

/// The node has applied its fence and nothing of what it lost is alive there (FENCING.md, rule 20).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfenceNode {
    pub node: NodeId,
    pub boot_id: BootId,
    /// Revision of the fence that is answered.
    pub fence: Revision,
    /// How many VMs it found running, or left, of those it had lost.
    #[serde(default)]
    pub found: u32,
}

/// Begins a drain, with the cordon, or calls one off; what has left by then stays away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetNodeDrain {
    pub node: NodeId,
    pub drain: Option<DrainRequest>,
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// How a node is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRequest {
    pub stop_timeout_s: u32,
    pub pinned: DrainPinned,
}

/// Begins maintenance (cordon, drain if asked for, no fencing), or ends it: the node takes VMs again, and those
/// its drain stopped are started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetNodeMaintenance {
    pub node: NodeId,
    pub on: bool,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub drain: Option<DrainRequest>,
    #[serde(default)]
    pub expected: Option<Revision>,
}
