//! Snapshots: a node that was away too long, or is new, gets one, in chunks; and a damaged one is refused.

use std::sync::Arc;

use futures::future::join_all;
use holm_raft::Timing;

use crate::support::{Cluster, PATIENCE, done, eventually, flavor, keyed, quick};

/// A state of more than 9 MiB takes more than one frame and several chunks.
const FLAVORS: usize = 600;
const BYTES: usize = 16_000;

fn eager() -> Timing {
    Timing { snapshot_every: 100, keep: 20, ..quick() }
}

async fn fill(cluster: &Cluster, at: usize) {
    let node = cluster.node(at);
    for batch in (0..FLAVORS).collect::<Vec<_>>().chunks(50) {
        let writes = batch.iter().map(|n| {
            let proposal = keyed(node, flavor(&format!("f{n}"), BYTES));
            async move { node.propose(proposal, PATIENCE).await.unwrap() }
        });
        for committed in join_all(writes).await {
            assert!(done(&committed.reply), "{:?}", committed.reply);
        }
    }
    eventually("the log is purged", || {
        let status = node.status();
        let status = status.borrow();
        status.snapshot_index > 300 && status.purged_index > 100
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_away_and_one_that_is_new_get_a_snapshot() {
    let mut cluster = Cluster::new(3, eager()).await;
    let leader = cluster.leader().await;
    let away = (leader + 1) % 3;
    cluster.stop(away).await;
    fill(&cluster, leader).await;

    cluster.start(away).await;
    let new = cluster.join(eager()).await;
    cluster.converge().await;
    for at in [away, new] {
        let status = cluster.node(at).status().borrow().clone();
        assert!(status.snapshot_index > 300, "node {at} got a snapshot: {status:?}");
        assert_eq!(cluster.node(at).state().state.flavors.len(), FLAVORS);
    }

    // What was installed is what a restart finds.
    cluster.stop(away).await;
    cluster.start(away).await;
    assert!(Arc::clone(&cluster.node(away).state()).state.flavors.len() > 300);
    cluster.converge().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_or_missing_snapshot_is_refused() {
    let mut cluster = Cluster::one(eager()).await;
    fill(&cluster, 0).await;
    cluster.stop(0).await;
    let file = cluster.places[0].data_dir().join("snapshot/current.snap");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(&file, &bytes).unwrap();
    let refusal = holm_raft::start(cluster.places[0].config()).await.err().unwrap().to_string();
    assert!(refusal.contains("damaged") && refusal.contains("holmd join"), "{refusal}");

    std::fs::remove_file(&file).unwrap();
    let refusal = holm_raft::start(cluster.places[0].config()).await.err().unwrap().to_string();
    assert!(refusal.contains("purged") && refusal.contains("holmd join"), "{refusal}");
}
