//! Server groups, as in Nova: VMs that are to be kept together or apart. Members name the group when they
//! are created; hard policies are checked by the scheduler and again at apply.

use serde::{Deserialize, Serialize};

use crate::id::{GroupId, Revision, Timestamp};

/// One group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerGroup {
    pub id: GroupId,
    pub project: String,
    /// Unique within the project.
    pub name: String,
    pub policy: GroupPolicy,
    /// With `anti-affinity`: members allowed on one host; 1 unless given.
    pub max_server_per_host: Option<u32>,
    pub created_at: Timestamp,
    pub revision: Revision,
}

/// What is done with the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
