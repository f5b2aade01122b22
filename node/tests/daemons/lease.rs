//! Leases of real daemons, as their lease files say: every node holds one, neither a leader's death nor a restart
//! costs it, and announced network work makes it long.

use holm_vmm::lease::{LeaseFile, LeaseId};
use serde_json::json;

use crate::daemon::Daemon;

/// The lease in the node's file, and how many seconds it lasts from now.
fn lease(node: &Daemon) -> Option<(LeaseId, u64)> {
    let path = node.path().join("run/lease");
    let (id, deadline_ns) = LeaseFile::open_or_create(&path).ok()?.current()?;
    let left_ns = deadline_ns.checked_sub(holm_vmm::host::boottime_ns())?;
    Some((id, left_ns / 1_000_000_000))
}

/// Waits until the node's lease lasts more than `seconds`.
async fn lasts(node: &Daemon, seconds: u64) -> LeaseId {
    node.until(&format!("its lease lasts more than {seconds} s"), async |node| {
        lease(node).filter(|(_, left)| *left > seconds).map(|(id, _)| id)
    })
    .await
}

#[tokio::test]
async fn a_lease_outlives_its_leader_and_its_daemon_and_is_long_while_the_cluster_is_frozen() {
    let mut nodes = Daemon::three().await;
    let mut ids = Vec::new();
    for node in &nodes {
        ids.push(lasts(node, 10).await);
    }

    // Whoever leads dies; the default ttl is 15 s, and only a later leader makes it last more than 13 s again.
    let leader = nodes[0].get("/v1/cluster").await.json["leader"]["name"].clone();
    let leader = nodes.iter().position(|node| leader == *node.name).expect("one of them leads");
    nodes[leader].kill();
    let survivor = &nodes[(leader + 1) % 3];
    survivor
        .until("another one leads", async |node| {
            let cluster = node.try_get("/v1/cluster").await?.json;
            let name = cluster["leader"]["name"].as_str()?;
            (name != nodes[leader].name).then_some(())
        })
        .await;
    for at in (0..3).filter(|at| *at != leader) {
        assert_eq!(
            lasts(&nodes[at], 13).await,
            ids[at],
            "the leader's death cost {} its lease",
            nodes[at].name
        );
    }

    let killed = nodes.remove(leader);
    nodes.insert(leader, killed.again().await);
    assert_eq!(lasts(&nodes[leader], 13).await, ids[leader], "the restart cost it its lease");

    nodes[0].put("/v1/freeze", json!({"for_ms": 600_000})).await;
    for (node, id) in nodes.iter().zip(&ids) {
        assert_eq!(lasts(node, 500).await, *id);
    }
}
