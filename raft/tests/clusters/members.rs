//! Membership follows the replicated state: nodes come, become voters, move to another address, and go.

use std::time::Duration;

use holm_model::command::RemoveNode;
use holm_model::{Command, NodeId};

use crate::support::{
    Cluster, PATIENCE, done, eventually, flavor, free_addr, has_flavor, id, keyed, quick, report,
};

fn removal(node: NodeId) -> Command {
    Command::RemoveNode(RemoveNode { node, confirm_node_off: false })
}

fn voters(cluster: &Cluster, at: usize) -> Vec<NodeId> {
    cluster.node(at).status().borrow().voters.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sixth_node_stays_a_learner_until_a_voter_goes() {
    let mut cluster = Cluster::new(5, quick()).await;
    let sixth = cluster.join(quick()).await;
    let sixth_id = id(cluster.node(sixth));
    eventually("it learns", || cluster.node(sixth).status().borrow().learners == [sixth_id]).await;
    let node = cluster.node(sixth);
    let committed = node.propose(keyed(node, flavor("by-a-learner", 0)), PATIENCE).await.unwrap();
    assert!(done(&committed.reply) && has_flavor(node, "by-a-learner"));
    assert!(node.read(PATIENCE).await.is_ok());

    let leader = cluster.leader().await;
    cluster.all_up().await;
    let gone = (leader + 1) % 5;
    let gone_id = id(cluster.node(gone));
    let node = cluster.node(sixth);
    let committed = node.propose(keyed(node, removal(gone_id)), PATIENCE).await.unwrap();
    assert!(done(&committed.reply), "{:?}", committed.reply);
    eventually("the sixth took its place", || {
        let voters = voters(&cluster, leader);
        voters.len() == 5 && voters.contains(&sixth_id) && !voters.contains(&gone_id)
    })
    .await;
    eventually("the removed node knows", || cluster.node(gone).status().borrow().removed).await;
    let removed = cluster.node(gone);
    assert!(removed.read(Duration::from_secs(2)).await.is_err());
    assert!(removed.propose(keyed(removed, flavor("late", 0)), Duration::from_secs(2)).await.is_err());
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_removed_hands_over_and_goes() {
    let mut cluster = Cluster::new(3, quick()).await;
    let old = cluster.leader().await;
    cluster.all_up().await;
    let old_id = id(cluster.node(old));
    let other = (old + 1) % 3;
    let node = cluster.node(other);
    let committed = node.propose(keyed(node, removal(old_id)), PATIENCE).await.unwrap();
    assert!(done(&committed.reply), "{:?}", committed.reply);
    eventually("two voters are left", || {
        let voters = voters(&cluster, other);
        voters.len() == 2 && !voters.contains(&old_id)
    })
    .await;
    eventually("the old leader knows", || cluster.node(old).status().borrow().removed).await;
    let node = cluster.node(other);
    node.propose(keyed(node, flavor("after", 0)), PATIENCE).await.unwrap();
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_moved_is_found_again() {
    let mut cluster = Cluster::new(3, quick()).await;
    let leader = cluster.leader().await;
    let moved = (leader + 1) % 3;
    cluster.stop(moved).await;
    cluster.places[moved].addr = free_addr();
    cluster.start(moved).await;

    let node = cluster.node(moved);
    let proposal = report(node, cluster.places[moved].addr);
    let committed = node.propose(proposal, PATIENCE).await.unwrap();
    assert!(done(&committed.reply), "{:?}", committed.reply);
    let node = cluster.node(leader);
    node.propose(keyed(node, flavor("after-the-move", 0)), PATIENCE).await.unwrap();
    eventually("it hears the leader again", || has_flavor(cluster.node(moved), "after-the-move")).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_node_is_refused() {
    let mut ours = Cluster::new(3, quick()).await;
    let mut theirs = Cluster::one(quick()).await;
    // Their node takes the address of one of ours.
    let leader = ours.leader().await;
    let replaced = (leader + 1) % 3;
    ours.stop(replaced).await;
    theirs.stop(0).await;
    theirs.places[0].addr = ours.places[replaced].addr;
    theirs.start(0).await;
    let node = ours.node(leader);
    node.propose(keyed(node, flavor("ours", 0)), PATIENCE).await.unwrap();
    theirs.leader().await;
    assert!(!has_flavor(theirs.node(0), "ours"));
    assert_eq!(voters(&theirs, 0).len(), 1);
    theirs.stop_all().await;
    ours.start(replaced).await;
    eventually("ours is back", || has_flavor(ours.node(replaced), "ours")).await;
    ours.stop_all().await;
}
