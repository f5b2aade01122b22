//! Host aggregates, as in Nova: nodes with something in common, said in metadata. A zone is an aggregate's
//! metadata; a node is in one zone at most.

use std::collections::BTreeMap;

use imbl::OrdSet;
use serde::{Deserialize, Serialize};

use crate::id::{AggregateId, NodeId, Revision, Timestamp};
use crate::resources::{InventoryOverride, ResourceClass};

/// Metadata key that makes an aggregate an availability zone.
pub const ZONE_KEY: &str = "availability_zone";
/// The zone of nodes that are in none.
pub const DEFAULT_ZONE: &str = "default";

/// One aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aggregate {
    pub id: AggregateId,
    /// Unique among aggregates.
    pub name: String,
    pub nodes: OrdSet<NodeId>,
    pub metadata: BTreeMap<String, String>,
    /// What its nodes offer instead of what they report; a node's own override goes first.
    pub inventory: BTreeMap<ResourceClass, InventoryOverride>,
    pub created_at: Timestamp,
    pub revision: Revision,
}

impl Aggregate {
    /// The zone it makes, if it makes one.
    pub fn zone(&self) -> Option<&str> {
        self.metadata.get(ZONE_KEY).map(String::as_str)
    }
}
