//! Host aggregates: nodes with something in common, said in metadata; and availability zones, which are
//! aggregates whose metadata names one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::node::{InventoryChange, InventoryOverride, NodeRef, PatchInventory};
use crate::time::Timestamp;

/// Metadata key that makes an aggregate an availability zone.
pub const ZONE_KEY: &str = "availability_zone";

/// One aggregate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Aggregate {
    pub id: Uuid,
    pub name: String,
    pub nodes: Vec<NodeRef>,
    /// The zone it makes: its metadata `availability_zone`.
    pub availability_zone: Option<String>,
    pub metadata: BTreeMap<String, String>,
    /// What its nodes offer instead of what they report, by resource class. Of a node in two aggregates that say
    /// something else, the younger aggregate counts; what is said of the node itself counts more than either.
    pub inventory: BTreeMap<String, InventoryOverride>,
    pub created_at: Timestamp,
    pub revision: u64,
}

/// Body of `POST /v1/aggregates`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateAggregate {
    /// 1 to 63 of letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Names or ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// Body of `PATCH /v1/aggregates/{aggregate}`: what is given is changed, a null removes the key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PatchAggregate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Names or ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add_nodes: Vec<String>,
    /// Names or ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove_nodes: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Option<String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, InventoryChange>)]
    pub inventory: BTreeMap<String, Option<PatchInventory>>,
}

/// One availability zone. Nodes that are in none are in `default`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AvailabilityZone {
    pub name: String,
    /// Whether a node of it is up and takes new VMs.
    pub available: bool,
    pub nodes: Vec<NodeRef>,
    /// Names of the aggregates that make it.
    pub aggregates: Vec<String>,
    /// VMs whose claim is on one of its nodes.
    pub vms: u64,
}
