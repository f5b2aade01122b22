//! Questions without effect: where VMs would go if nodes were lost or drained.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::explain::{Advice, Planned};
use crate::scheduler::NPlusOne;
use crate::vm::HostReason;

/// What would become of the VMs of nodes that are lost or drained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhatIf {
    /// Names of the nodes that would be lost.
    pub lose: Vec<String>,
    /// Names of the nodes that would be drained.
    pub drain: Vec<String>,
    /// A sentence that sums it up.
    pub summary: String,
    /// What keeps VMs from coming back by themselves, or nodes from being emptied, whatever room there is, a sentence
    /// each: no majority would be left, no fence can come.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hindrances: Vec<String>,
    /// Every VM on those nodes but those being deleted: those that fit in the order they would be placed, then
    /// those that do not, then those that a drain does not move.
    pub vms: Vec<Move>,
    /// VMs that wait already and take part, in the order of the queue.
    #[serde(default)]
    pub waiting: Vec<Planned>,
    /// What to do next about the other nodes that refuse those that do not fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
    /// How many of `vms` would find a host.
    pub fits: u64,
    /// How many would not.
    pub stranded: u64,
    /// Revision of the state it was worked out from.
    pub revision: u64,
}

/// Where one VM would go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Move {
    pub vm: String,
    pub vm_id: Uuid,
    /// Where it is.
    pub from: String,
    /// Where it would go; null when no host fits, or when it stays.
    pub to: Option<String>,
    /// Whether that happens by itself, since it fails over or the drain moves it. Otherwise it stays with its node
    /// until somebody moves it, and this is where it would go then.
    #[serde(default)]
    pub by_itself: bool,
    /// What becomes of it on a node that is drained, if it is not moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays: Option<Stay>,
    /// Why hosts would refuse it, 32 of them at most, those of every filter among them; empty when one fits, and after
    /// the first hundred VMs that fit nowhere.
    pub refusals: Vec<HostReason>,
    /// How many hosts each filter would refuse it on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, u32>,
}

/// What becomes of a VM on a node that is drained, if it is not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stay {
    /// It is off, and stays there.
    Off,
    /// It is pinned: shut down, or it runs on, as the drain is told.
    StopsOrKept,
    /// It is pinned, and is shut down.
    Stops,
    /// It is pinned, and runs on.
    Kept,
    /// It is on its way to another node already.
    Leaving,
}

/// Whether the cluster could lose any one node and still hold its failover VMs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NPlusOneVerdict {
    /// What the scheduler's policy makes of it when a failover VM is created.
    pub policy: NPlusOne,
    pub holds: bool,
    /// A sentence that sums it up.
    pub summary: String,
    /// How many failover VMs there are.
    pub vms: u64,
    /// Names of those that fit nowhere even with every node there.
    pub waiting: Vec<String>,
    /// The nodes it could not do without.
    pub losses: Vec<NodeLoss>,
    /// What does not hold, for people; empty when all does.
    pub sentences: Vec<String>,
    /// Revision of the state it was worked out from.
    pub revision: u64,
}

/// A node whose loss would leave failover VMs without a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeLoss {
    pub node: String,
    pub node_id: u64,
    /// How many failover VMs it has.
    pub vms: u64,
    /// Names of those that would fit nowhere.
    pub stuck: Vec<String>,
    /// What these claim together, by resource class.
    pub missing: BTreeMap<String, u64>,
}
