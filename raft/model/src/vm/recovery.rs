//! How a VM comes back from trouble, or leaves its node.

use serde::{Deserialize, Serialize};

use super::{StopMode, is_default};
use crate::id::{NodeId, Revision, Timestamp};

/// How far a VM is on its way back from trouble.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovery {
    /// It lost or left its node by a fence, a drain, a rebalance or an evacuation: it waits for a host without a
    /// time-out, since nobody may be there to ask again.
    #[serde(skip_serializing_if = "is_default")]
    pub failing_over: bool,
    /// Why it did, until it runs again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_host: Option<String>,
    /// How many rounds of builds have failed since it last ran: each time the pause before the next is twice as long.
    #[serde(skip_serializing_if = "is_default")]
    pub build_rounds: u32,
    /// How many of the hosts where it failed to build are of earlier rounds.
    #[serde(skip_serializing_if = "is_default")]
    pub tried_before: u32,
    /// Restarts by its policy within [`RESTART_WINDOW_MS`](super::RESTART_WINDOW_MS).
    #[serde(skip_serializing_if = "is_default")]
    pub restarts: u32,
    /// When the first of those was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts_since: Option<Timestamp>,
    /// While RESTARTING: when the next run begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_restart_at: Option<Timestamp>,
    /// When the present `task_state` began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_since: Option<Timestamp>,
    /// When the availability was last asked for; a node that arms a shim names it.
    #[serde(skip_serializing_if = "is_default")]
    pub availability_revision: Revision,
    /// It is to leave its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vacate: Option<Vacate>,
    /// The host it takes before better ones, if it fits there: where it was moved to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_to: Option<NodeId>,
    /// The drain of this node stopped it; it is started again when that is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_for: Option<NodeId>,
}

impl Recovery {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Why and how a VM leaves its node: it is stopped, its epoch released, and it is placed anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vacate {
    pub since: Timestamp,
    /// `drain`, `preempted by big`, `rebalance` …
    pub reason: String,
    pub stop: StopMode,
    /// Where it is to go, if it fits there by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<NodeId>,
}
