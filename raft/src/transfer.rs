//! Handing leadership to another voter. The target is checked first: one that cannot take over would cost an
//! election.

use std::time::Duration;

use holm_model::NodeId;
use openraft::errors::Fatal;
use tokio::time::{Instant, sleep};

use crate::core::Core;
use crate::handle::RaftStatus;

/// Longest wait for the target to take over.
const TRANSFER: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
/// A target silent for longer, or further behind, is not asked.
pub(crate) const SILENT_MS: u64 = 1_000;
const LAG: u64 = 1_000;

/// Why leadership was not handed over; it stays where it was, or went elsewhere.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("this node is not the leader")]
    NotLeader,
    #[error("node {0} cannot lead: {1}")]
    Unsuitable(NodeId, &'static str),
    #[error("no other voter is up to date")]
    NoTarget,
    #[error("node {0} did not take over in time")]
    Timeout(NodeId),
    #[error("Raft has failed: {0}")]
    Raft(String),
}

impl Core {
    /// Hands leadership to `to`, or to the voter that is furthest; answers who took it.
    pub(crate) async fn transfer_leadership(&self, to: Option<NodeId>) -> Result<NodeId, TransferError> {
        if !self.is_leader() {
            return Err(TransferError::NotLeader);
        }
        let status = self.status.borrow().clone();
        let to = match to {
            Some(node) => suitable(&status, self.node(), node).map(|()| node)?,
            None => successor(&status, self.node()).ok_or(TransferError::NoTarget)?,
        };
        let failed = |error: Fatal<_>| TransferError::Raft(error.to_string());
        self.raft.trigger().transfer_leader(to.0).await.map_err(failed)?;
        let begun = Instant::now();
        while begun.elapsed() < TRANSFER {
            if self.leader() == Some(to) {
                return Ok(to);
            }
            sleep(PAUSE).await;
        }
        Err(TransferError::Timeout(to))
    }
}

/// The voter that is furthest of those that could lead instead of `this`.
pub(crate) fn successor(status: &RaftStatus, this: NodeId) -> Option<NodeId> {
    let could = status.voters.iter().copied().filter(|node| suitable(status, this, *node).is_ok());
    could.max_by_key(|node| status.matched.get(node).copied())
}

fn suitable(status: &RaftStatus, this: NodeId, node: NodeId) -> Result<(), TransferError> {
    let unsuitable = |why| Err(TransferError::Unsuitable(node, why));
    if node == this {
        return unsuitable("it already does");
    }
    if !status.voters.contains(&node) {
        return unsuitable("it is not a voter");
    }
    if status.silent_ms.get(&node).is_none_or(|silent_ms| *silent_ms > SILENT_MS) {
        return unsuitable("it does not answer");
    }
    if status.matched.get(&node).copied().unwrap_or(0) + LAG < status.last_log_index {
        return unsuitable("it lags too far behind");
    }
    Ok(())
}
