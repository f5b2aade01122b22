//! Nodes: hosts that run the daemon.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cluster::Role;
use crate::time::Timestamp;

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    pub id: u64,
    pub name: String,
    /// `host:port` of the peer service.
    pub peer_addr: String,
    /// `host:port` of the REST API.
    pub api_addr: String,
    /// In Raft, as the answering node sees it.
    pub role: Role,
    /// Whether the leader hears from it.
    pub up: bool,
    /// Since when it has been up, or down.
    pub up_changed_at: Timestamp,
    /// False when it is cordoned: what runs stays, nothing new is placed.
    pub enabled: bool,
    pub disabled_reason: Option<String>,
    /// Of its daemon; null before its first report, as is `hypervisor`.
    pub version: Option<String>,
    pub hypervisor: Option<Hypervisor>,
    /// By resource class: `VCPU`, `MEMORY_MB` (MiB), `DISK_GB` (GiB) …
    pub inventory: BTreeMap<String, Inventory>,
    /// What is wrong with it, by name; empty when all is well.
    pub conditions: BTreeMap<String, Condition>,
    /// VMs whose claim is on it.
    pub vms: u64,
    pub created_at: Timestamp,
    pub revision: u64,
}

/// What a node has of one resource class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Inventory {
    pub total: u64,
    /// Kept for the host itself.
    pub reserved: u64,
    /// Overcommit: 4.0 for CPUs if not configured.
    pub allocation_ratio: f64,
    /// (total - reserved) × ratio.
    pub capacity: u64,
    /// Sum of the claims.
    pub used: u64,
}

/// Which hypervisor a node drives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hypervisor {
    pub kind: HypervisorKind,
    /// Of the VMM; empty for the simulated one.
    pub version: String,
    /// Why the simulated one is in use, or why the real one cannot be; empty when all is well.
    pub reason: String,
}

/// The hypervisors there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HypervisorKind {
    CloudHypervisor,
    /// In memory: no guest runs.
    Simulated,
}

/// Something wrong with a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Condition {
    pub since: Timestamp,
    pub message: String,
}

/// A node, by id and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeRef {
    pub id: u64,
    pub name: String,
}

/// Body of `PATCH /v1/nodes/{node}`: cordon and uncordon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchNode {
    pub enabled: bool,
    /// With `enabled: false`: why, for other operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
