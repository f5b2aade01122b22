//! Leases and fencing as the operator sets them, and announced network work.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

/// The cluster's policy. All durations are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterPolicy {
    /// How long a node may run failover VMs after the heartbeat it was granted for.
    pub lease_ttl_ms: Bounded,
    /// What is waited beyond a lease before its node is fenced: clock drift, wake-up, kill.
    pub margin_ms: Bounded,
    /// How long a node that booted waits for a quorum before it starts the pinned VMs it had.
    pub autostart_wait_ms: Bounded,
    /// A node that is silent for longer than this is fenced, and its failover VMs are placed elsewhere. More than
    /// ttl and margin while leases of an earlier, longer ttl may be out.
    pub fence_after_ms: u64,
    /// How many nodes may be fenced within one ttl; more than that is for a person to judge.
    pub fences_at_once: u64,
    /// Whether failover is possible: it takes three nodes.
    pub failover_possible: bool,
    /// Revision of its last change; 0 for the default.
    pub revision: u64,
}

/// A number and what it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Bounded {
    pub value: u64,
    pub least: u64,
    pub most: u64,
}

/// Body of `PATCH /v1/policy`: what is given is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PatchClusterPolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autostart_wait_ms: Option<u64>,
}

/// Body of `PUT /v1/freeze`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginFreeze {
    /// From now; at most 24 hours.
    pub for_ms: u64,
    /// Why, for other operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Announced network work: leases are as long as it, and nobody is fenced meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Freeze {
    pub since: Timestamp,
    /// When its leases end at the latest.
    pub until: Timestamp,
    pub reason: Option<String>,
    /// It was called off or has run out, and its leases are waited for: nobody is fenced before `until` and the
    /// margin have passed.
    pub over: bool,
    pub revision: u64,
}
