//! Nodes: hosts that run the daemon.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::cluster::Role;
use crate::scheduling::Taint;
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
    /// By resource class: `VCPU`, `MEMORY_MB` (MiB), `DISK_GB` (GiB) … What it reports, under the overrides
    /// of its aggregates, under its own. Where two aggregates say something else, the younger one counts.
    pub inventory: BTreeMap<String, Inventory>,
    /// What an operator said it offers, whatever it reports.
    #[serde(default)]
    pub inventory_overrides: BTreeMap<String, InventoryOverride>,
    /// `default` when it is in no zone.
    #[serde(default)]
    pub availability_zone: String,
    /// Names of the aggregates it is in.
    #[serde(default)]
    pub aggregates: Vec<String>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Traits an operator gave it.
    #[serde(default)]
    pub traits: Vec<String>,
    /// Traits it reports, in Placement's words: `HW_CPU_X86_AVX2` …
    #[serde(default)]
    pub reported_traits: Vec<String>,
    /// Facts it reports: `arch`, `cpu_model`, `hypervisor_type`, `hypervisor_version`, `firmware`.
    #[serde(default)]
    pub capabilities: BTreeMap<String, String>,
    /// CPUs set apart for VMs with `hw:cpu_policy=dedicated`, each with its NUMA node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dedicated_cpus: BTreeMap<u32, u32>,
    /// PCI devices that VMs may have, by address.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pci_devices: BTreeMap<String, PciDevice>,
    /// Load average per CPU it reported, coarsely rounded; null before its first report.
    #[serde(default)]
    pub load: Option<f64>,
    /// Builds that failed there lately.
    #[serde(default)]
    pub failed_builds: u32,
    /// What is wrong with it, by name; empty when all is well.
    pub conditions: BTreeMap<String, Condition>,
    /// It was fenced, and has not yet shown that nothing of what it lost runs there.
    #[serde(default)]
    pub fence: Option<Fence>,
    /// It is being emptied.
    #[serde(default)]
    pub drain: Option<NodeDrain>,
    /// Work on the machine is announced: nothing is placed there and it is not fenced, also across its boots.
    #[serde(default)]
    pub maintenance: Option<Maintenance>,
    /// VMs found on the host that this cluster never placed there; nothing is done about them.
    #[serde(default)]
    pub orphans: Vec<Orphan>,
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
    /// Least amount of one claim.
    #[serde(default = "one")]
    pub min_unit: u64,
    /// Greatest amount of one claim; null for no bound.
    #[serde(default)]
    pub max_unit: Option<u64>,
    /// A claim is a multiple of this.
    #[serde(default = "one")]
    pub step_size: u64,
}

fn one() -> u64 {
    1
}

/// What an operator says instead of what a node reports; what is not given stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InventoryOverride {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<u64>,
    /// Above 0, at most 1000; three decimals count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_unit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_size: Option<u64>,
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

/// A node whose leases have all ended: its failover VMs were taken from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fence {
    pub since: Timestamp,
    /// What was taken from it.
    pub lost: Vec<LostVm>,
}

/// A VM that a node lost, and the placement that ended so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostVm {
    pub id: Uuid,
    /// Null when it is deleted since.
    pub name: Option<String>,
    pub epoch: u64,
}

/// How far the drain of a node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeDrain {
    pub since: Timestamp,
    /// Seconds a guest gets to shut down.
    pub stop_timeout_s: u32,
    pub pinned: DrainPinned,
    /// Nothing of what was to leave runs there any more.
    pub done: bool,
    /// Names of the failover VMs that may still run there.
    pub left_failover: Vec<String>,
    /// Names of the pinned VMs that may still run there.
    pub left_pinned: Vec<String>,
}

/// What a drain does with pinned VMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DrainPinned {
    /// They are shut down, and started again when the node is uncordoned.
    Stop,
    /// They run on; the drain is done when the others have gone.
    Keep,
}

impl DrainPinned {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Keep => "keep",
        }
    }
}

/// Announced work on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Maintenance {
    pub since: Timestamp,
    pub reason: Option<String>,
}

/// A VM found on a host that this cluster never placed there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Orphan {
    pub id: Uuid,
    /// What is known of it.
    pub message: String,
}

/// A node, by id and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeRef {
    pub id: u64,
    pub name: String,
}

/// A change of an override: what is given is set, a null is as reported again, and the rest stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PatchInventory {
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub total: Option<Option<u64>>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub reserved: Option<Option<u64>>,
    /// Above 0, at most 1000; three decimals count.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub allocation_ratio: Option<Option<f64>>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub min_unit: Option<Option<u64>>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub max_unit: Option<Option<u64>>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub step_size: Option<Option<u64>>,
}

/// A null is an answer too.
fn given<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// A change of an override, or null to go back to what is reported.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code)] // Only its description is used; `Option<PatchInventory>` reads both.
pub enum InventoryChange {
    Change(PatchInventory),
    Reset,
}

/// Body of `PATCH /v1/nodes/{node}`: what is given is changed. `enabled` goes in a request of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PatchNode {
    /// False cordons it: what runs stays, nothing new is placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// With `enabled: false`: why, for other operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// By key; a null removes one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
    /// Replaces all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    /// Replaces all that operators gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traits: Option<Vec<String>>,
    /// Overrides by resource class; a null goes back to what the node reports.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, InventoryChange>)]
    pub inventory: BTreeMap<String, Option<PatchInventory>>,
}

/// A PCI device of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PciDevice {
    /// What VMs ask for it by: `pci_passthrough:alias=NAME:COUNT`.
    pub alias: String,
    pub vendor: String,
    pub product: String,
    pub numa_node: Option<u32>,
    /// Name of the VM that has it.
    pub vm: Option<String>,
}
