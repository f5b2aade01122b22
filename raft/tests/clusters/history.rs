//! States of the past are made again from snapshot and log: the very same, also after a restart, until the log of then
//! is gone.

use holm_model::State;
use holm_raft::{HistoryError, Timing};

use crate::support::{Cluster, PATIENCE, done, eventually, flavor, keyed, quick};

async fn write(cluster: &Cluster, name: &str) -> State {
    let node = cluster.node(0);
    let committed = node.propose(keyed(node, flavor(name, 10)), PATIENCE).await.unwrap();
    assert!(done(&committed.reply), "{:?}", committed.reply);
    node.state().state.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_state_since_the_beginning_is_made_again_while_the_log_is_there() {
    let mut cluster = Cluster::one(quick()).await;
    let mut states = Vec::new();
    for n in 0..20 {
        states.push(write(&cluster, &format!("f{n}")).await);
    }
    for restarted in [false, true] {
        for state in &states {
            let again = cluster.node(0).state_at(state.revision).await.unwrap();
            assert!(again == *state, "revision {}, restarted: {restarted}", state.revision);
        }
        cluster.stop(0).await;
        cluster.start(0).await;
    }
    let applied = cluster.node(0).state().state.revision;
    let ahead = cluster.node(0).state_at(holm_model::id::Revision(applied.0 + 1_000)).await;
    assert!(matches!(ahead, Err(HistoryError::Ahead { .. })), "{:?}", ahead.err());
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_whose_log_is_gone_is_told_to_be_and_those_after_the_snapshot_are_not() {
    let mut cluster = Cluster::one(Timing { snapshot_every: 20, keep: 2, ..quick() }).await;
    let first = write(&cluster, "first").await;
    let mut last = first.clone();
    for n in 0..60 {
        last = write(&cluster, &format!("f{n}")).await;
    }
    let node = cluster.node(0);
    eventually("the log is purged", || node.status().borrow().purged_index > 20).await;
    let gone = node.state_at(first.revision).await;
    assert!(matches!(gone, Err(HistoryError::Gone { .. })), "{:?}", gone.err());
    assert!(node.state_at(last.revision).await.unwrap() == last);
    cluster.stop_all().await;
}
