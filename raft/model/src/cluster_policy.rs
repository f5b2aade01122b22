//! Leases and fencing, as the operator set them: replicated, so that every future leader and every node
//! counts alike (FENCING.md, rules 8 to 10 and 13).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::{NodeId, Revision, Timestamp};
use crate::node::Node;
use crate::state::State;

/// The longest an election may take, in milliseconds: Raft's greatest election time-out.
pub const LONGEST_ELECTION_MS: u64 = 900;
/// Least `lease_ttl`: a leader's death, one lost election included, costs nobody's lease (rule 9).
pub const LEASE_TTL_MS_MIN: u64 = 3 * (2 * LONGEST_ELECTION_MS + 1_000);
pub const LEASE_TTL_MS_MAX: u64 = 600_000;
/// Least `margin`: a shim's kill, and clocks that drift by 1 % over the longest usual ttl.
pub const MARGIN_MS_MIN: u64 = 2_000;
pub const MARGIN_MS_MAX: u64 = 120_000;
pub const AUTOSTART_WAIT_MS_MAX: u64 = 3_600_000;
/// Longest announced network work.
pub const FREEZE_MS_MAX: u64 = 24 * 3_600_000;
/// Failover needs a majority that outlives the loss of any one node (rule 9).
pub const FAILOVER_NODES_MIN: usize = 3;

/// The policy in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPolicy {
    /// How long a node may run failover VMs after the heartbeat it was granted for.
    pub lease_ttl_ms: u64,
    /// What is waited beyond a lease before its node is fenced: clock drift, wake-up, kill.
    pub margin_ms: u64,
    /// How long a node that booted waits for a quorum before it starts the pinned VMs it had.
    pub autostart_wait_ms: u64,
    /// The longest ttl of any lease that may still be out: a lowered `lease_ttl_ms` shortens the wait before
    /// a fence only once the leases of before have ended. Kept by apply.
    pub longest_ttl_ms: u64,
    /// When it was set; 0 for the default.
    pub revision: Revision,
}

impl ClusterPolicy {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for ClusterPolicy {
    /// Stays as it is for ever: snapshots leave it out, and replicas of another version must read the same.
    fn default() -> Self {
        Self {
            lease_ttl_ms: 15_000,
            margin_ms: 5_000,
            autostart_wait_ms: 60_000,
            longest_ttl_ms: 15_000,
            revision: Revision::default(),
        }
    }
}

/// Network work was announced: leases are as long as it, and nobody is fenced meanwhile (rule 10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freeze {
    pub since: Timestamp,
    /// As asked for: leases are longer by what is left of it.
    pub for_ms: u64,
    /// The longest that was asked for before it ended: leases of an earlier one may be out, so it is waited for.
    #[serde(default)]
    pub longest_ms: u64,
    pub reason: Option<String>,
    /// Revision of the `SetFreeze`.
    pub revision: Revision,
    /// It was called off; leases given under it may still be out until `EndFreeze`. One that runs out stays `false`.
    #[serde(default)]
    pub over: bool,
    /// Nodes whose lease is short again since it was called off. When none other could hold a long one, `EndFreeze`
    /// need not wait.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub short: BTreeSet<NodeId>,
}

impl Freeze {
    /// Whether no node can hold a lease that is longer for it any more. A fenced node holds none at all.
    pub fn all_short(&self, state: &State) -> bool {
        let holds = |node: &Node| node.fence.is_none() && !self.short.contains(&node.id);
        self.over && !state.nodes.values().any(holds)
    }
}
