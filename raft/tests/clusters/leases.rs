//! Heartbeats and grants between real members (FENCING.md, rules 5 to 8).

use std::time::{Duration, Instant};

use holm_model::cluster_policy::{LEASE_TTL_MS_MIN, MARGIN_MS_MIN};
use holm_model::command::{FenceNode, SetClusterPolicy};
use holm_model::{BootId, Command};
use holm_raft::leases::{Grant, Heartbeat, HeartbeatAnswer};
use holm_raft::{Handle, faults};
use uuid::Uuid;

use crate::support::{Cluster, PATIENCE, done, eventually, flavor, id, keyed, quick};

const TIMEOUT: Duration = Duration::from_secs(3);

/// As the node's record has it.
fn heartbeat(node: &Handle, holds: bool) -> Heartbeat {
    let published = node.state();
    let report = published.state.nodes[&id(node)].report.as_ref();
    Heartbeat { boot_id: report.expect("it has reported").boot_id, holds }
}

async fn granted(node: &Handle) -> Grant {
    let begun = Instant::now();
    loop {
        match node.heartbeat(heartbeat(node, true), TIMEOUT).await {
            Ok(HeartbeatAnswer::Granted(grant)) => return grant,
            // The first of a new leader may come before it has begun.
            other => assert!(begun.elapsed() < PATIENCE, "{other:?}"),
        }
    }
}

/// As short as they may be.
async fn shorten_leases(node: &Handle) {
    let (ttl, margin) = (Some(LEASE_TTL_MS_MIN), Some(MARGIN_MS_MIN));
    let policy = SetClusterPolicy { lease_ttl_ms: ttl, margin_ms: margin, ..SetClusterPolicy::default() };
    let policy = Command::SetClusterPolicy(policy);
    assert!(done(&node.propose(keyed(node, policy), PATIENCE).await.unwrap().reply));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_is_granted_a_lease_that_covers_what_was_acknowledged_before() {
    let mut cluster = Cluster::new(3, quick()).await;
    cluster.all_up().await;
    let written =
        cluster.node(0).propose(keyed(cluster.node(0), flavor("small", 0)), PATIENCE).await.unwrap();
    for node in cluster.running() {
        let grant = granted(node).await;
        assert!(grant.read_index >= written.log_index, "{grant:?} does not cover {}", written.log_index);
        assert_eq!(grant.ttl_ms, node.state().state.policy.lease_ttl_ms);
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_host_under_the_same_identity_gets_no_lease() {
    let mut cluster = Cluster::new(3, quick()).await;
    cluster.all_up().await;
    let node = cluster.node(1);
    granted(node).await;
    let stranger = Heartbeat { boot_id: BootId(Uuid::new_v4()), holds: true };
    match node.heartbeat(stranger, TIMEOUT).await {
        Ok(HeartbeatAnswer::Refused(why)) => assert!(why.contains("another host"), "{why}"),
        other => panic!("{other:?}"),
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_a_quorum_grants_nothing() {
    let mut cluster = Cluster::new(3, quick()).await;
    cluster.all_up().await;
    let leader = cluster.leader().await;
    granted(cluster.node(leader)).await;
    for at in (0..3).filter(|at| *at != leader) {
        cluster.stop(at).await;
    }
    let node = cluster.node(leader);
    for _ in 0..3 {
        let answer = node.heartbeat(heartbeat(node, true), TIMEOUT).await;
        assert!(answer.is_err(), "{answer:?}");
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_node_may_be_fenced_when_its_lease_has_ended_and_is_granted_none_then() {
    let mut cluster = Cluster::new(3, quick()).await;
    cluster.all_up().await;
    let leader = cluster.leader().await;
    let node = cluster.node(leader);
    shorten_leases(node).await;
    let silent = cluster.node((leader + 1) % 3);
    granted(silent).await;
    let since = Instant::now();
    let fenceable = || {
        // The others go on asking.
        node.lease_facts().fenceable.contains(&id(silent))
    };
    eventually("its lease has ended", fenceable).await;
    let waited = since.elapsed();
    let least = Duration::from_millis(LEASE_TTL_MS_MIN + MARGIN_MS_MIN);
    assert!(waited >= least, "fenceable after {waited:?}, its lease and the margin last {least:?}");
    let leadership = node.state().state.leadership.unwrap().revision;
    let fence = FenceNode { leadership, node: id(silent) };
    let fenced = node.propose_fence(fence, "test").await.unwrap();
    assert!(done(&fenced.reply), "{:?}", fenced.reply);
    match silent.heartbeat(heartbeat(silent, false), TIMEOUT).await {
        Ok(HeartbeatAnswer::Refused(why)) => assert!(why.contains("fenced"), "{why}"),
        other => panic!("{other:?}"),
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_was_held_up_while_a_fence_came_and_went_is_none() {
    let mut cluster = Cluster::new(3, quick()).await;
    cluster.all_up().await;
    let leader = cluster.leader().await;
    let node = cluster.node(leader);
    shorten_leases(node).await;
    let late = cluster.node((leader + 1) % 3).clone();
    granted(&late).await;
    let (go_on, until) = std::sync::mpsc::channel::<()>();
    faults::hold_up_next_grant(node, move || {
        tokio::task::block_in_place(|| until.recv().expect("the test goes on"));
    });
    let beat = heartbeat(&late, true);
    let fenced = id(&late);
    let asked = tokio::spawn(async move { late.heartbeat(beat, PATIENCE).await });
    eventually("its lease has ended", || node.lease_facts().fenceable.contains(&fenced)).await;
    let leadership = node.state().state.leadership.unwrap().revision;
    let committed = node.propose_fence(FenceNode { leadership, node: fenced }, "test").await.unwrap();
    assert!(done(&committed.reply), "{:?}", committed.reply);
    go_on.send(()).unwrap();
    match asked.await.unwrap() {
        Ok(HeartbeatAnswer::Refused(why)) => assert!(why.contains("fenced"), "{why}"),
        other => panic!("{other:?}"),
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_heard_again_is_not_fenced() {
    let mut cluster = Cluster::new(3, quick()).await;
    cluster.all_up().await;
    let leader = cluster.leader().await;
    let node = cluster.node(leader);
    let other = cluster.node((leader + 1) % 3);
    granted(other).await;
    let leadership = node.state().state.leadership.unwrap().revision;
    let refused = node.propose_fence(FenceNode { leadership, node: id(other) }, "test").await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(node.state().state.nodes[&id(other)].fence.is_none());
    granted(other).await;
    cluster.stop_all().await;
}
