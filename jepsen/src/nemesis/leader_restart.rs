//! Kills the leader with SIGKILL and starts it again at once: it comes back before anyone else is elected, or
//! just after, with a state that lags its own log. That is where stale reads come from.

use std::time::Duration;

use anyhow::Result;
use rand::Rng;
use rand::rngs::StdRng;

use super::Progress;
use super::kill::UNAVAILABLE_LIMIT;
use crate::harness::Cluster;
use crate::history::{Fault, FaultKind, Journal};

/// Progress between two faults, so that each meets a cluster under load.
const BETWEEN: std::ops::Range<u64> = 10..40;

/// `rounds` restarts. Faults as they were; and daemons that ended although nobody asked.
///
/// # Errors
/// When the cluster does not come back.
pub async fn run(
    cluster: &mut Cluster,
    rounds: u64,
    journal: &Journal,
    mut progress: Progress,
    rng: &mut StdRng,
    faults: &mut Vec<Fault>,
) -> Result<Vec<String>> {
    let mut unasked = Vec::new();
    for _ in 0..rounds {
        progress.more(rng.random_range(BETWEEN), UNAVAILABLE_LIMIT).await?;
        unasked.extend(cluster.revive()?);
        let leader = cluster.leader().await?;
        let mut fault =
            Fault::new(FaultKind::Restart, cluster.daemons[leader].name.clone(), true, journal.now_ns());
        cluster.daemons[leader].kill()?;
        cluster.daemons[leader].start()?;
        fault.took_hold = true;
        journal.write(&serde_json::json!({"type": "fault", "fault": fault}));
        cluster.wait_ready(leader).await?;
        fault.healed_ns = Some(journal.now_ns());
        journal.write(&serde_json::json!({"type": "healed", "fault": fault}));
        faults.push(fault);
    }
    progress.more(BETWEEN.start, Duration::from_secs(30)).await?;
    unasked.extend(cluster.revive()?);
    Ok(unasked)
}
