//! A flavor: a named size. A VM keeps a copy of the sizes it was created with, so a flavor may be
//! deleted while VMs made from it live on (as in Nova).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{FlavorId, Revision, Timestamp};

/// A named size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flavor {
    pub id: FlavorId,
    pub name: String,
    pub size: Size,
    /// Nova's extra specs: free-form requirements read by filters.
    #[serde(default)]
    pub extra_specs: BTreeMap<String, String>,
    pub created_at: Timestamp,
    pub revision: Revision,
}

/// What a VM asks of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    pub vcpus: u32,
    pub memory_mib: u64,
    /// Root disk; 0 for a guest that needs none.
    pub disk_gib: u64,
}
