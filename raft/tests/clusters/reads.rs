//! Linearizable reads, through every node, while leaders are lost and come back at once: never older than a
//! write that was acknowledged before the read began.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use holm_raft::{Handle, faults};
use tokio::task::JoinSet;

use crate::support::{self, Cluster, PATIENCE, flavor, keyed, quick};

const RESTARTS: usize = 8;
const TRY: Duration = Duration::from_secs(10);

/// Writes f0, f1, … through `node`; `acknowledged` counts those answered, in order.
async fn write(node: Handle, acknowledged: Arc<AtomicUsize>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        let next = acknowledged.load(Ordering::SeqCst);
        let proposal = keyed(&node, flavor(&format!("f{next}"), 0));
        // The same proposal until it is answered: the key makes that safe.
        while node.propose(proposal.clone(), TRY).await.is_err() {}
        acknowledged.store(next + 1, Ordering::SeqCst);
    }
}

async fn read(node: Handle, acknowledged: Arc<AtomicUsize>, stop: Arc<AtomicBool>) -> usize {
    let mut reads = 0;
    while !stop.load(Ordering::SeqCst) {
        let expected = acknowledged.load(Ordering::SeqCst);
        let Ok(seen) = node.read(TRY).await else {
            // Stopped, perhaps: there is no hurry.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let seen = seen.state.flavors.len();
        assert!(seen >= expected, "node {} read {seen} of {expected}", node.node_id());
        reads += 1;
    }
    reads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_read_is_older_than_an_acknowledged_write_across_restarts_of_the_leader() {
    let mut cluster = Cluster::new(3, quick()).await;
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let mut reads = 0;
    for _ in 0..RESTARTS {
        let leader = cluster.leader().await;
        let stop = Arc::new(AtomicBool::new(false));
        let mut readers = JoinSet::new();
        for node in cluster.running() {
            readers.spawn(read(node.clone(), Arc::clone(&acknowledged), Arc::clone(&stop)));
        }
        let follower = cluster.node((leader + 1) % 3).clone();
        let writer = tokio::spawn(write(follower, Arc::clone(&acknowledged), Arc::clone(&stop)));
        support::eventually("it writes", {
            let target = acknowledged.load(Ordering::SeqCst) + 10;
            let acknowledged = &acknowledged;
            move || acknowledged.load(Ordering::SeqCst) >= target
        })
        .await;

        // Without handing over, and back at once: it may well be elected again, with a state that lags.
        faults::stop_abruptly(&cluster.nodes[leader].take().unwrap()).await;
        cluster.start(leader).await;
        let back = cluster.node(leader).clone();
        readers.spawn(read(back, Arc::clone(&acknowledged), Arc::clone(&stop)));
        let target = acknowledged.load(Ordering::SeqCst) + 10;
        support::eventually("it writes again", || acknowledged.load(Ordering::SeqCst) >= target).await;
        stop.store(true, Ordering::SeqCst);
        writer.await.unwrap();
        while let Some(done) = readers.join_next().await {
            reads += done.unwrap();
        }
    }
    assert!(reads > RESTARTS, "some reads must have had an answer");
    let state = cluster.node(0).read(PATIENCE).await.unwrap();
    assert_eq!(state.state.flavors.len(), acknowledged.load(Ordering::SeqCst), "every write once");
    cluster.stop_all().await;
}
