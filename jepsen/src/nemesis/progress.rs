//! What a nemesis sees of the workload: how many writes were acknowledged.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::watch;

/// Watches acknowledgements.
#[derive(Clone, Debug)]
pub struct Progress {
    acknowledged: watch::Receiver<u64>,
}

impl Progress {
    pub fn new(acknowledged: watch::Receiver<u64>) -> Self {
        Self { acknowledged }
    }

    /// Waits for `count` more acknowledged writes.
    ///
    /// # Errors
    /// When the cluster does not get there within `limit`.
    pub async fn more(&mut self, count: u64, limit: Duration) -> Result<()> {
        let target = *self.acknowledged.borrow() + count;
        let reached = self.acknowledged.wait_for(|acknowledged| *acknowledged >= target);
        tokio::time::timeout(limit, reached)
            .await
            .with_context(|| format!("{count} writes were not acknowledged within {} s", limit.as_secs()))?
            .context("the workload has ended")?;
        Ok(())
    }
}
