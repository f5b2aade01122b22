//! Three real members in one process: writes through any of them, a leader that goes, nodes that come back.

use std::path::Path;
use std::time::Duration;

use crate::support::{self, Cluster, PATIENCE, done, eventually, flavor, has_flavor, keyed, quick};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_through_any_node_is_seen_there_at_once_and_everywhere_soon() {
    let mut cluster = Cluster::new(3, quick()).await;
    for at in 0..3 {
        let node = cluster.node(at);
        let name = format!("f{at}");
        let committed = node.propose(keyed(node, flavor(&name, 0)), PATIENCE).await.unwrap();
        assert!(done(&committed.reply), "{:?}", committed.reply);
        assert!(has_flavor(node, &name), "a client sees its own write where it made it");
    }
    cluster.converge().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_leads_when_the_leader_goes_and_the_old_one_comes_back() {
    let mut cluster = Cluster::new(3, quick()).await;
    let old = cluster.leader().await;
    let node = cluster.node(old);
    node.propose(keyed(node, flavor("before", 0)), PATIENCE).await.unwrap();
    cluster.stop(old).await;

    let new = cluster.leader().await;
    assert_ne!(new, old);
    let other = (0..3).find(|at| *at != old && *at != new).unwrap();
    let node = cluster.node(other);
    node.propose(keyed(node, flavor("meanwhile", 0)), PATIENCE).await.unwrap();

    cluster.start(old).await;
    let state = cluster.node(old).read(PATIENCE).await.unwrap();
    assert!(state.state.find_flavor("before").is_some());
    assert!(state.state.find_flavor("meanwhile").is_some());
    cluster.converge().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_restart_with_everything_acknowledged() {
    let mut cluster = Cluster::new(3, quick()).await;
    for n in 0..20 {
        let node = cluster.node(n % 3);
        node.propose(keyed(node, flavor(&format!("f{n}"), 0)), PATIENCE).await.unwrap();
    }
    cluster.stop_all().await;
    for at in 0..3 {
        cluster.start(at).await;
    }
    for at in 0..3 {
        let state = cluster.node(at).read(PATIENCE).await.unwrap();
        assert_eq!(state.state.flavors.len(), 20);
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_comes_back_with_an_older_log_gets_the_entries_again() {
    let mut cluster = Cluster::new(3, quick()).await;
    let leader = cluster.leader().await;
    let reverted = (leader + 1) % 3;
    let data = cluster.places[reverted].data_dir().to_owned();
    let backup = tempfile::tempdir().unwrap();
    let copy = backup.path().join("data");
    cluster.converge().await;
    cluster.stop(reverted).await;
    copy_dir(&data, &copy);
    cluster.start(reverted).await;
    for n in 0..20 {
        let node = cluster.node(leader);
        node.propose(keyed(node, flavor(&format!("f{n}"), 0)), PATIENCE).await.unwrap();
    }
    cluster.converge().await;

    cluster.stop(reverted).await;
    support::remove(&data);
    copy_dir(&copy, &data);
    cluster.start(reverted).await;
    eventually("the entries are there again", || has_flavor(cluster.node(reverted), "f19")).await;
    assert!(cluster.node(leader).status().borrow().leading, "its leader went on");
    cluster.converge().await;
    cluster.stop_all().await;
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_goes_where_it_is_sent() {
    let mut cluster = Cluster::new(3, quick()).await;
    let old = cluster.leader().await;
    let target = support::id(cluster.node((old + 1) % 3));
    let taken = cluster.node(old).transfer_leadership(Some(target)).await.unwrap();
    assert_eq!(taken, target);
    eventually("the target leads", || cluster.node((old + 1) % 3).status().borrow().leading).await;
    let node = cluster.node(old);
    assert!(node.propose_here(flavor("x", 0), "test").await.is_err());
    node.propose(keyed(node, flavor("x", 0)), Duration::from_secs(5)).await.unwrap();
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_number_is_a_time_out() {
    let mut cluster = Cluster::new(2, quick()).await;
    let leader = cluster.leader().await;
    for node in [cluster.node(leader), cluster.node(1 - leader)] {
        node.propose(keyed(node, flavor(&format!("by-{}", node.node_id()), 0)), Duration::MAX).await.unwrap();
        node.read(Duration::MAX).await.unwrap();
    }
    cluster.stop_all().await;
}
