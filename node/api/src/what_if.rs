//! Questions without effect: where VMs would go if nodes were lost or drained, and which nodes would take a
//! flavor now.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

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
    /// Every VM on those nodes but those being deleted: those that fit in the order they would be placed, then
    /// those that do not.
    pub vms: Vec<Move>,
    /// How many of them would find a host.
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
    /// Where it would go; null when no host fits.
    pub to: Option<String>,
    /// Why each host would refuse it; empty when one fits.
    pub refusals: Vec<HostReason>,
}

/// Which nodes would take a VM of a flavor now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AllocationCandidates {
    pub flavor: String,
    /// What such a VM would claim, by resource class; the VMM's own memory included.
    pub claim: BTreeMap<String, u64>,
    /// Nodes that would take it, best first.
    pub candidates: Vec<Candidate>,
    pub refusals: Vec<HostReason>,
    pub revision: u64,
}

/// A node that would take it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Candidate {
    pub node: String,
    pub node_id: u64,
    pub score: f64,
    /// What is free there now, by class of the claim.
    pub free: BTreeMap<String, u64>,
    /// How many such VMs fit there, one after the other, by capacity alone.
    pub count: u64,
}
