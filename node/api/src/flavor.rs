//! Flavors: named sizes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::time::Timestamp;

/// Body of `POST /v1/flavors`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateFlavor {
    pub name: String,
    /// 1 to 254.
    pub vcpus: u32,
    /// An even number from 16 to 12582912.
    pub memory_mib: u64,
    /// Root disk; 0 for a guest that needs none.
    #[serde(default)]
    pub disk_gib: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_specs: BTreeMap<String, String>,
}

/// One flavor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Flavor {
    pub id: Uuid,
    pub name: String,
    pub vcpus: u32,
    pub memory_mib: u64,
    pub disk_gib: u64,
    pub extra_specs: BTreeMap<String, String>,
    pub created_at: Timestamp,
    pub revision: u64,
}
