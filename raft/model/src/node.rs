//! A node: a host that runs the daemon. The record holds what the cluster decided about it (address,
//! enabled, up) and what it last reported of itself (inventory, hypervisor, conditions).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{BootId, NodeId, Revision, Timestamp};
use crate::resources::{Inventory, ResourceClass, Resources};

/// One member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub id: NodeId,
    /// Unique among nodes.
    pub name: String,
    /// `host:port` of the peer service.
    pub peer_addr: String,
    /// `host:port` of the REST API, for forwarded streams (console, log, image data).
    pub api_addr: String,
    /// False when an operator cordoned it: what runs stays, nothing new is placed.
    pub enabled: bool,
    /// Why it was cordoned, in the operator's words.
    pub disabled_reason: Option<String>,
    /// Whether the leader hears from it. Starts false, becomes true with its first report.
    pub up: bool,
    /// When `up` last changed.
    pub up_changed_at: Timestamp,
    /// Its latest report; none before the first.
    pub report: Option<NodeReport>,
    /// Sequence of that report.
    pub report_sequence: u64,
    /// Boots before the current one, the latest last; a report from one of them comes too late.
    pub past_boots: Vec<BootId>,
    /// Sum over the claims on this node, kept beside them by apply.
    pub allocated: Resources,
    pub created_at: Timestamp,
    pub revision: Revision,
}

/// What a node says of itself. Replaced as a whole by a newer one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    pub boot_id: BootId,
    /// Version of its daemon.
    pub version: String,
    pub hypervisor: HypervisorFacts,
    pub inventory: BTreeMap<ResourceClass, Inventory>,
    /// What is wrong with it, by condition name; empty when all is well.
    pub conditions: BTreeMap<String, Condition>,
}

/// Which hypervisor a node drives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HypervisorFacts {
    pub kind: HypervisorKind,
    /// Version string of the VMM, empty for the simulated one.
    pub version: String,
    /// Why the simulated one is in use, or why the real one cannot be; empty when all is well.
    pub reason: String,
}

/// The drivers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HypervisorKind {
    CloudHypervisor,
    /// In memory; no guest runs. Labelled wherever a VM is shown.
    Simulated,
}

/// Something wrong with a node, for a person to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    pub since: Timestamp,
    pub message: String,
}

/// How many past boots of a node are remembered.
pub const PAST_BOOTS: usize = 8;
