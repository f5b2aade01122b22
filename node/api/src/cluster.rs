//! The cluster: its members, and the checkpoint by which two replicas are compared.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::node::NodeRef;
use crate::policy::Freeze;
use crate::time::Timestamp;

/// The cluster as the answering node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    pub id: Uuid,
    pub name: String,
    pub created_at: Timestamp,
    /// The format version all members speak.
    pub version: u32,
    /// Null while there is none.
    pub leader: Option<NodeRef>,
    pub term: u64,
    pub members: Vec<Member>,
    /// Who answers.
    pub node: NodeRef,
    /// Log index of the last entry it has applied.
    pub applied_index: u64,
    pub last_log_index: u64,
    pub snapshot_index: u64,
    /// Announced network work, if there is any.
    #[serde(default)]
    pub freeze: Option<Freeze>,
    pub revision: u64,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Member {
    pub id: u64,
    pub name: String,
    pub role: Role,
    pub up: bool,
    pub peer_addr: String,
    pub api_addr: String,
    /// When the leader answers: milliseconds since this member last did.
    pub silent_ms: Option<u64>,
    /// When the leader answers: how far this member's log matches.
    pub matched_index: Option<u64>,
}

/// How a node stands in Raft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    Leader,
    Voter,
    /// Has the state, does not vote.
    Learner,
    /// Known, not yet in Raft's membership.
    Joining,
}

impl Role {
    /// The role as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Voter => "voter",
            Self::Learner => "learner",
            Self::Joining => "joining",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the answering node has applied: at equal indexes, all nodes have equal hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Checkpoint {
    pub node: String,
    pub node_id: u64,
    pub log_index: u64,
    pub revision: u64,
    /// SHA-256 of the encoded state, in hex.
    pub state_hash: String,
}
