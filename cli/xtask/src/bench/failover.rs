//! The leader killed, again and again: how long until writes are acknowledged.

use anyhow::Context;

use super::report::{Measurement, Sample};
use crate::dev_cluster::DevCluster;
use crate::probe;

/// Kills the leader `kills` times; each comes back before the next dies.
///
/// # Errors
/// When writes do not come back, or a daemon does not.
pub fn measure(cluster: &DevCluster, kills: usize) -> anyhow::Result<Vec<Measurement>> {
    let mut ms = Vec::new();
    for kill in 0..kills {
        let leader = cluster.leader()?;
        let others = cluster.nodes()?.into_iter().filter(|node| node.name != leader.name);
        let endpoints: Vec<String> = others.map(|node| node.endpoint()).collect();
        let name = format!("kill-{kill}");
        let unavailable = probe::unavailability(&name, &endpoints, || cluster.kill(&leader))?;
        ms.push(unavailable.as_secs_f64() * 1e3);
        cluster.start_missing()?;
    }
    let sample = Sample::new(ms).context("no kills")?;
    let note = format!("target p50 < 2000, p99 < 4000; {kills} kills");
    Ok(vec![Measurement::spread("leader killed → writes acknowledged", "ms", &sample, &note)])
}
