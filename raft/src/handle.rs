//! What the rest of Holm sees of Raft: propose, read, watch. Cheap to clone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holm_model::{NodeId, Proposal, Reply, State};
use tokio::sync::watch;

/// The applied state, as published after each batch of entries.
#[derive(Clone, Debug)]
pub struct Published {
    /// Log index of the last applied entry.
    pub log_index: u64,
    /// A clone of the state; sharing all its parts, so cheap.
    pub state: State,
}

/// An answer that a quorum has made durable and this node has applied.
#[derive(Clone, Debug)]
pub struct Committed {
    pub log_index: u64,
    pub reply: Reply,
}

/// Why a proposal has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// It was not, and will not be, proposed: nothing changed.
    #[error("no leader: {0}")]
    Unavailable(String),
    /// It may or may not take effect. Sending it again with the same key is safe.
    #[error("outcome unknown: {0}")]
    Unknown(String),
    /// Only for [`Handle::propose_here`]: this process does not lead.
    #[error("this node is not the leader")]
    NotLeader,
}

/// Why a linearizable read has no answer.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the current state: {0}")]
pub struct ReadError(pub String);

/// How this member stands in Raft; published on every change.
#[derive(Clone, Debug, Default)]
pub struct RaftStatus {
    pub term: u64,
    /// The leader this node knows of.
    pub leader: Option<NodeId>,
    /// This process leads and has applied its `BeginLeadership`: controllers may decide.
    pub leading: bool,
    pub voters: Vec<NodeId>,
    pub learners: Vec<NodeId>,
    pub last_log_index: u64,
    pub applied_index: u64,
    pub snapshot_index: u64,
    pub purged_index: u64,
    /// On the leader: milliseconds since each other member last answered; absent if never in this term.
    pub silent_ms: BTreeMap<NodeId, u64>,
    /// On the leader: how far each other member's log matches.
    pub matched: BTreeMap<NodeId, u64>,
}
