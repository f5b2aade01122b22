//! Projects: whose VMs, server groups, images, volumes and quotas are whose. They partition names, quotas and placement, not
//! access: there are no users.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::time::Timestamp;

/// One project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Project {
    /// Nil for `default`, which is always there.
    pub id: Uuid,
    pub name: String,
    pub description: String,
    /// How many VMs belong to it.
    pub vms: u64,
    pub server_groups: u64,
    /// Images of `default` may be used by every project.
    pub images: u64,
    #[serde(default)]
    pub volumes: u64,
    pub created_at: Timestamp,
    pub revision: u64,
}

/// Body of `POST /v1/projects`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateProject {
    /// 1 to 63 of letters, digits, `-`, `_`, `.`; unique. It never changes.
    pub name: String,
    /// At most 1024 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// Body of `PATCH /v1/projects/{project}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchProject {
    /// Replaces the one before; empty removes it.
    pub description: String,
}
