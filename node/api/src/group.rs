//! Server groups: VMs that are kept together or apart.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::time::Timestamp;

/// One server group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerGroup {
    pub id: Uuid,
    pub name: String,
    pub project: String,
    pub policy: GroupPolicy,
    /// With `anti-affinity`: members allowed on one host.
    pub max_server_per_host: Option<u32>,
    pub members: Vec<GroupMember>,
    pub created_at: Timestamp,
    pub revision: u64,
}

/// A VM of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupMember {
    pub id: Uuid,
    pub name: String,
    /// Where it is placed, if it is.
    pub node: Option<String>,
}

/// What is done with the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GroupPolicy {
    /// All on one host.
    Affinity,
    /// No more than `max_server_per_host` on one host.
    AntiAffinity,
    /// Together where possible.
    SoftAffinity,
    /// Apart where possible.
    SoftAntiAffinity,
}

impl GroupPolicy {
    /// The policy as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Affinity => "affinity",
            Self::AntiAffinity => "anti-affinity",
            Self::SoftAffinity => "soft-affinity",
            Self::SoftAntiAffinity => "soft-anti-affinity",
        }
    }
}

impl fmt::Display for GroupPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Body of `POST /v1/server-groups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateServerGroup {
    /// 1 to 63 of letters, digits, `-`, `_`, `.`; unique within the project.
    pub name: String,
    pub policy: GroupPolicy,
    /// With `anti-affinity` only; 1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_server_per_host: Option<u32>,
}

/// Body of `PATCH /v1/server-groups/{group}`. A lower `max_server_per_host` moves nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PatchServerGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_server_per_host: Option<u32>,
}
