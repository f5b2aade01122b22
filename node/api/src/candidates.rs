//! Allocation candidates, as Placement answers them: which nodes would take a VM, with what it would hold there and what
//! they have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::explain::Advice;
use crate::vm::HostReason;

/// Which nodes would take a VM of a flavor, or one that asks for some amounts, now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AllocationCandidates {
    /// Null when amounts were asked about.
    pub flavor: Option<String>,
    /// What such a VM asks for, by resource class.
    #[serde(default)]
    pub requested: BTreeMap<String, u64>,
    /// What it would claim: the same, and the VMM's own memory.
    pub claim: BTreeMap<String, u64>,
    /// Nodes that would take it, best first; at most `limit`.
    pub candidates: Vec<Candidate>,
    /// How many more there are.
    #[serde(default)]
    pub more: u64,
    /// Why others would not; at most `limit`, by node.
    pub refusals: Vec<HostReason>,
    /// How many nodes each filter refuses, in all.
    #[serde(default)]
    pub refused: BTreeMap<String, u64>,
    /// What to do next about these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
    /// What is asked for and no node has; empty when all is well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    pub revision: u64,
}

/// A node that would take it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Candidate {
    pub node: String,
    pub node_id: u64,
    pub score: f64,
    /// What the VM would hold there, by resource class.
    #[serde(default)]
    pub allocations: BTreeMap<String, u64>,
    /// What is free there now, by class of the claim.
    pub free: BTreeMap<String, u64>,
    /// How many such VMs fit there, one after the other, by every filter; at most 1000 are counted.
    pub count: u64,
    /// Every class the node has.
    #[serde(default)]
    pub summary: ProviderSummary,
}

/// What a node has (Placement's provider summary).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderSummary {
    /// By resource class.
    pub resources: BTreeMap<String, ClassSummary>,
    /// Those it reports and those it was given, by name.
    pub traits: Vec<String>,
}

/// How much of a class a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClassSummary {
    /// What may be claimed: `(total - reserved) × allocation_ratio`.
    pub capacity: u64,
    /// What is claimed.
    pub used: u64,
}
