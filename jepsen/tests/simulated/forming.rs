//! A cluster that forms while power fails: whatever `holmd init` and `holmd join` said is done stays done.
//! `HOLM_JEPSEN_ROUNDS` makes it more rounds, `HOLM_JEPSEN_SEED` repeats one.

use std::time::Duration;

use anyhow::{Context, Result};
use holm_jepsen::harness::{Cluster, Setup};
use holm_jepsen::seed;
use rand::Rng;
use rand::rngs::StdRng;

use crate::isolation;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_forms_while_the_power_of_its_nodes_fails() -> Result<()> {
    if isolation::skipped("a_cluster_forms_while_the_power_of_its_nodes_fails") {
        return Ok(());
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let first = number("HOLM_JEPSEN_SEED").unwrap_or_else(|| u64::from(rand::random::<u32>()));
    for seed in first..first + number("HOLM_JEPSEN_ROUNDS").unwrap_or(1) {
        let formed = form(&mut seed::stream(seed, "forming", 0)).await;
        formed.with_context(|| format!("repeat with HOLM_JEPSEN_SEED={seed}"))?;
    }
    Ok(())
}

async fn form(rng: &mut StdRng) -> Result<()> {
    let mut cluster = Cluster::prepare_isolated(&Setup::simulated(3))?;
    cluster.daemons[0].init("jepsen")?;
    if rng.random_bool(0.5) {
        cluster.power_off(&[0])?;
        cluster.boot(0)?;
    }
    cluster.daemons[0].start()?;
    cluster.wait_ready(0).await?;
    for node in 1..3 {
        cluster.daemons[node].join(&cluster.daemons[0])?;
        if rng.random_bool(0.5) {
            cluster.power_off(&[node])?;
            cluster.boot(node)?;
        }
        cluster.daemons[node].start()?;
        // Into the moments in which it becomes a learner and a voter.
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..900))).await;
        let hit: Vec<_> = (0..=node).filter(|_| rng.random_bool(0.4)).collect();
        cluster.power_off(&hit)?;
        for at in &hit {
            cluster.power_on(*at)?;
        }
        for at in 0..=node {
            cluster.wait_ready(at).await?;
        }
    }
    cluster.wait_whole().await?;
    assert_eq!(cluster.shut_down(), Vec::<String>::new());
    Ok(())
}
