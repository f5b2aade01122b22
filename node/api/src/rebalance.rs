//! Rebalancing: a plan of moves, and what became of it.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::query::Consistency;

/// A plan of moves for a better balance. VMs that are on their way count where they go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rebalance {
    /// How unevenly hosts are used: the standard deviation of their used shares, in percentage points, over the
    /// classes the weighers Cpu, Ram and Disk weigh. Negative where the policy packs: then less is better too.
    pub imbalance: f64,
    /// The same once all moves are made.
    pub imbalance_after: f64,
    /// Those that gain most first; of an applied plan those that were begun.
    pub moves: Vec<PlannedMove>,
    /// How many moves the plan has. A few are under way at a time, each only while its host has room: the rest is for
    /// the next call.
    #[serde(default)]
    pub planned: u64,
    /// VMs that were moved earlier and have not arrived.
    #[serde(default)]
    pub under_way: u64,
    /// VMs that cannot be moved, by reason.
    pub staying: Vec<Staying>,
    /// Whether it was a call to begin them.
    pub applied: bool,
    /// Moves that were no longer possible when they were begun.
    pub refused: Vec<RefusedMove>,
    pub revision: u64,
}

/// One move. The VM is stopped and started on its new node; its local disk is written anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedMove {
    pub vm: String,
    pub vm_id: Uuid,
    pub from: String,
    pub to: String,
    /// By how much it lowers the imbalance, those before it made, in percentage points.
    pub gain: f64,
}

/// VMs that cannot be moved, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Staying {
    pub why: String,
    pub count: u64,
    /// Names of some of them.
    pub vms: Vec<String>,
}

/// A move that was no longer possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedMove {
    pub vm: String,
    pub detail: String,
}

/// Body of `POST /v1/rebalance`; may be empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StartRebalance {
    /// At most so many moves, 1 to 100; 10 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_moves: Option<u32>,
    /// The least a move must gain, in percentage points; 1 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_gain: Option<f64>,
}

/// Of the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct RebalanceQuery {
    /// At most so many moves, 1 to 100; 10 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_moves: Option<u32>,
    /// The least a move must gain, in percentage points; 1 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_gain: Option<f64>,
    /// `linearizable` (default) or `stale`.
    #[param(inline)]
    pub consistency: Consistency,
}
