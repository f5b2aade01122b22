//! Commands about leases and fencing as a whole.

use serde::{Deserialize, Serialize};

use crate::id::{NodeId, Revision};

/// Changes the cluster's policy; what is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetClusterPolicy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ttl_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autostart_wait_ms: Option<u64>,
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// The leases given under a longer ttl have ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettleLeaseTtl {
    /// Revision of the sender's `BeginLeadership`.
    pub leadership: Revision,
    /// Revision of the policy whose ttl is the only one left.
    pub policy: Revision,
}

/// Announces network work, or calls it off with `for_ms: None` (FENCING.md, rule 10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetFreeze {
    pub for_ms: Option<u64>,
    #[serde(default)]
    pub reason: Option<String>,
}

/// A node has made its lease short again after a freeze was called off, and lets none become long for it any more.
/// Sent by that node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortenLease {
    pub node: NodeId,
    /// Revision of the freeze.
    pub freeze: Revision,
}

/// The freeze is over and every lease that was longer for it has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndFreeze {
    /// Revision of the sender's `BeginLeadership`.
    pub leadership: Revision,
    /// Revision of the freeze.
    pub freeze: Revision,
}

/// The leader's wall clock does not go on from where the stamps of the log are: it was set, or another leader's was
/// off, or nobody led for a while. Everything that waits is moved along, so that no time-out ends early or late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetClock {
    /// Revision of the sender's `BeginLeadership`.
    pub leadership: Revision,
    /// From here on stamps are later by this much than they would have been.
    pub by_ms: i64,
}
