//! Commands about host aggregates.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::id::{AggregateId, NodeId, Revision};
use crate::resources::{InventoryOverride, ResourceClass};

/// A new aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateAggregate {
    pub id: AggregateId,
    pub name: String,
    #[serde(default)]
    pub nodes: BTreeSet<NodeId>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// Changes what is given; `None` as a value removes the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateAggregate {
    pub id: AggregateId,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub add_nodes: BTreeSet<NodeId>,
    #[serde(default)]
    pub remove_nodes: BTreeSet<NodeId>,
    #[serde(default)]
    pub metadata: BTreeMap<String, Option<String>>,
    #[serde(default)]
    pub inventory: BTreeMap<ResourceClass, Option<InventoryOverride>>,
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// Removes an aggregate; refused while it has nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteAggregate {
    pub id: AggregateId,
    #[serde(default)]
    pub expected: Option<Revision>,
}
