//! A node: a host that runs the daemon. The record holds what the cluster decided about it (address,
//! enabled, up) and what it last reported of itself (inventory, hypervisor, conditions).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::id::{BootId, Epoch, NodeId, Revision, Timestamp, VmId};
use crate::limits;
use crate::parts::Offer;
use crate::resources::{Inventory, InventoryOverride, ResourceClass, Resources};
use crate::room::Room;
use crate::scheduling::Taint;

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
    /// Revision of the current boot's first report, where another boot reported before: whoever saw less is of an
    /// earlier one.
    #[serde(default, skip_serializing_if = "is_first")]
    pub boot_revision: Revision,
    /// Sum over the claims on this node, kept beside them by apply.
    pub allocated: Resources,
    /// How many those are, and the parts they leave of what it offers; kept by apply, follows from the rest.
    #[serde(skip)]
    pub room: Room,
    /// What it offers: its report, under its aggregates' overrides, under its own. Kept by apply.
    #[serde(default)]
    pub inventory: BTreeMap<ResourceClass, Inventory>,
    /// What the operator says it offers, whatever it reports.
    #[serde(default)]
    pub inventory_overrides: BTreeMap<ResourceClass, InventoryOverride>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub taints: BTreeSet<Taint>,
    /// Traits the operator gave it (`CUSTOM_…`), beside those it reports.
    #[serde(default)]
    pub traits: BTreeSet<String>,
    /// Builds that failed here lately; the next one that succeeds sets it back.
    #[serde(default)]
    pub failed_builds: u32,
    /// It was fenced and has not yet shown that nothing of what it lost runs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// When it was last fenced, whether or not it is back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fenced_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Maintenance>,
    /// Conditions that the cluster sees, beside those it reports; kept by apply.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub findings: BTreeMap<String, Condition>,
    /// When a second host last reported as this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloned_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub revision: Revision,
}

/// A node whose leases have all ended: its failover VMs were taken from it (FENCING.md, rules 8, 19, 20).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    pub at: Timestamp,
    /// Revision of the `FenceNode`; the node names it to be let back.
    pub revision: Revision,
    /// What was taken from it.
    pub lost: BTreeMap<VmId, Epoch>,
}

/// The VMs of a node are being moved or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    pub since: Timestamp,
    /// How long a guest may take to shut down before it is powered off.
    pub stop_timeout_s: u32,
    pub pinned: DrainPinned,
}

/// What a drain does with pinned VMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainPinned {
    /// They are shut down, and started again when the drain is over.
    Stop,
    /// They run on; the drain is done when the others have gone.
    Keep,
}

/// Work on the machine is announced: nothing is placed there and it is not fenced, also across its boots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintenance {
    pub since: Timestamp,
    pub reason: Option<String>,
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
    /// Facts for `ComputeCapabilities`: `arch`, `cpu_model`, `hypervisor_type` …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capabilities: BTreeMap<String, String>,
    /// Traits in Placement's words (`HW_CPU_X86_AVX2` …).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub traits: BTreeSet<String>,
    /// Parts that VMs may hold for themselves.
    #[serde(default, skip_serializing_if = "Offer::is_empty")]
    pub offer: Offer,
    /// One-minute load average per CPU, in thousandths, coarsely rounded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub load_thousandths: u64,
    /// VMs found on the host that this cluster never placed there, and what is known of each; nothing is done
    /// about them. At most [`ORPHANS_MAX`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub orphans: BTreeMap<VmId, String>,
}

fn is_first(revision: &Revision) -> bool {
    *revision == Revision::default()
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Node {
    /// Whether it has the trait, reported or given.
    pub fn has_trait(&self, name: &str) -> bool {
        self.traits.contains(name) || self.report.as_ref().is_some_and(|report| report.traits.contains(name))
    }
}

/// `v53.2.1` as 53,002,001: the first three numbers of a version, 999 at most behind the first; 0 for what is none.
pub fn version_number(version: &str) -> i64 {
    let mut parts = [0i64; 3];
    let mut at = 0;
    for byte in version.strip_prefix('v').unwrap_or(version).bytes() {
        match byte {
            b'0'..=b'9' => parts[at] = (parts[at] * 10 + i64::from(byte - b'0')).min(1_000_000_000),
            b'.' | b'-' | b'+' if at < 2 => at += 1,
            _ => break,
        }
    }
    (parts[0] * 1000 + parts[1].min(999)) * 1000 + parts[2].min(999)
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

impl NodeReport {
    /// Cuts what is too long, as apply does: who compares a report with what is recorded of the last must not find that it
    /// differs for ever.
    pub fn clip(&mut self) {
        self.hypervisor.reason = limits::clip(&self.hypervisor.reason);
        for condition in self.conditions.values_mut() {
            condition.message = limits::clip(&condition.message);
        }
        while self.orphans.len() > ORPHANS_MAX {
            self.orphans.pop_last();
        }
        for orphan in self.orphans.values_mut() {
            *orphan = limits::clip(orphan);
        }
    }
}

/// Something wrong with a node, for a person to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    pub since: Timestamp,
    pub message: String,
}

/// How many past boots of a node are remembered.
pub const PAST_BOOTS: usize = 8;
/// How many orphans a report names.
pub const ORPHANS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::{Condition, NodeReport, version_number};
    use crate::id::Timestamp;

    #[test]
    fn a_report_that_was_cut_stays_as_it_is() {
        let mut report: NodeReport = serde_json::from_value(serde_json::json!({
            "boot_id": uuid::Uuid::nil(), "version": "v", "inventory": {}, "conditions": {},
            "hypervisor": { "kind": "simulated", "version": "", "reason": "r".repeat(5_000) },
        }))
        .expect("a report");
        let message = "missing; ".repeat(500);
        report.conditions.insert("PartsMissing".into(), Condition { since: Timestamp(1), message });
        report.clip();
        let once = report.clone();
        report.clip();
        assert_eq!(report, once);
        assert!(
            once.hypervisor.reason.len() < 2_000 && once.conditions["PartsMissing"].message.len() < 2_000
        );
    }

    #[test]
    fn versions_compare_by_number() {
        let cases =
            [("v53.0", 53_000_000), ("53.0-246-g1", 53_000_246), ("9.10.11", 9_010_011), ("v9", 9_000_000)];
        for (version, expected) in cases {
            assert_eq!(version_number(version), expected, "{version}");
        }
        for nothing in ["", "v", "latest", "."] {
            assert_eq!(version_number(nothing), 0, "{nothing:?}");
        }
    }
}
