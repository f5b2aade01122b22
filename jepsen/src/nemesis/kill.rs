//! Kills a random node with SIGKILL, the leader in every third round, waits until the others have gone on
//! without it, and starts it again.

use std::time::Duration;

use anyhow::Result;
use rand::Rng;
use rand::rngs::StdRng;

use super::Progress;
use crate::harness::Cluster;
use crate::history::{Fault, FaultKind, Journal};

/// A majority acknowledges writes again within this long after a kill.
pub const UNAVAILABLE_LIMIT: Duration = Duration::from_secs(30);

/// `rounds` kills. Faults as they were; and daemons that ended although nobody asked.
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
    let offset = rng.random_range(0..3);
    for round in 0..rounds {
        progress.more(rng.random_range(5..20), UNAVAILABLE_LIMIT).await?;
        unasked.extend(cluster.revive()?);
        let leader = cluster.leader().await?;
        // Rounds of three hold one kill of the leader for certain; a single round is one.
        let wanted = rounds < 3 || (round + offset) % 3 == 0;
        let victim = if wanted { leader } else { rng.random_range(0..cluster.daemons.len()) };
        let mut fault = Fault::new(
            FaultKind::Kill,
            cluster.daemons[victim].name.clone(),
            victim == leader,
            journal.now_ns(),
        );
        cluster.daemons[victim].kill()?;
        fault.took_hold = true;
        journal.write(&serde_json::json!({"type": "fault", "fault": fault}));
        progress.more(rng.random_range(3..20), UNAVAILABLE_LIMIT).await?;
        cluster.daemons[victim].start()?;
        cluster.wait_ready(victim).await?;
        fault.healed_ns = Some(journal.now_ns());
        journal.write(&serde_json::json!({"type": "healed", "fault": fault}));
        faults.push(fault);
    }
    unasked.extend(cluster.revive()?);
    Ok(unasked)
}
