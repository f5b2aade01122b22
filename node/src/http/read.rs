//! How a read gets its state: linearizable by default, this node's own copy when the client says so.

use std::sync::Arc;
use std::time::Duration;

use holm_api::Consistency;
use holm_model::State;
use holm_raft::handle::{Handle, Published};

use super::problem::Result;

/// How long a linearizable read waits for the leader and for this node to catch up.
pub const READ_TIMEOUT: Duration = Duration::from_secs(3);

/// A state to answer from.
pub struct Snapshot {
    published: Arc<Published>,
    pub stale: bool,
}

impl Snapshot {
    /// At least as new as every write acknowledged before this call, unless `consistency` is stale.
    ///
    /// # Errors
    /// `unavailable` when there is no leader to ask.
    pub async fn take(raft: &Handle, consistency: Consistency) -> Result<Self> {
        match consistency {
            Consistency::Linearizable => Ok(Self { published: raft.read(READ_TIMEOUT).await?, stale: false }),
            Consistency::Stale => Ok(Self { published: raft.state(), stale: true }),
        }
    }

    /// The state with its log index.
    pub fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published)
    }

    pub fn state(&self) -> &State {
        &self.published.state
    }
}
