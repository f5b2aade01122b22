//! Commands about server groups.

use serde::{Deserialize, Serialize};

use crate::group::GroupPolicy;
use crate::id::{GroupId, Revision};

/// A new server group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateGroup {
    pub id: GroupId,
    pub name: String,
    pub policy: GroupPolicy,
    #[serde(default)]
    pub max_server_per_host: Option<u32>,
}

/// Changes what is given. A lower `max_server_per_host` moves nobody; it holds for the next placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateGroup {
    pub id: GroupId,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub max_server_per_host: Option<u32>,
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// Removes a group; refused while it has members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteGroup {
    pub id: GroupId,
    #[serde(default)]
    pub expected: Option<Revision>,
}
