//! A node whose data cannot be trusted does not start, says what happened, and how to come back; and nothing
//! about it is changed by trying.

mod support;

use std::path::Path;

use holm_raft::{Config, Timing, init_cluster, join_cluster, start};
use support::{Cluster, PATIENCE, flavor, keyed, quick, remove};

/// A node that led and wrote, stopped.
async fn used() -> Cluster {
    let mut cluster = Cluster::one(quick()).await;
    let node = cluster.node(0);
    for n in 0..40 {
        node.propose(keyed(node, flavor(&format!("f{n}"), 2_000)), PATIENCE).await.unwrap();
    }
    cluster.stop(0).await;
    cluster
}

async fn refusal(cluster: &Cluster) -> String {
    start(cluster.places[0].config()).await.err().expect("it must not start").to_string()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test]
async fn a_missing_store() {
    let cluster = used().await;
    remove(&cluster.places[0].data_dir().join("log"));
    for _ in 0..2 {
        let refusal = refusal(&cluster).await;
        assert!(refusal.contains("missing") && refusal.contains("holmd join"), "{refusal}");
        assert!(!cluster.places[0].data_dir().join("log").exists(), "it is not recreated");
    }
}

#[tokio::test]
async fn an_empty_store() {
    let cluster = used().await;
    std::fs::write(cluster.places[0].data_dir().join("log/db"), b"").unwrap();
    let refusal = refusal(&cluster).await;
    assert!(refusal.contains("is empty") && refusal.contains("holmd join"), "{refusal}");
}

/// What a file looks like whose pages never reached the disk: sled opens it, and there is nothing.
#[tokio::test]
async fn a_store_that_came_back_without_anything() {
    let cluster = used().await;
    let log = cluster.places[0].data_dir().join("log");
    remove(&log);
    std::fs::create_dir(&log).unwrap();
    std::fs::write(log.join("db"), vec![0; 1 << 20]).unwrap();
    std::fs::write(log.join("conf"), b"").unwrap();
    let refusal = refusal(&cluster).await;
    assert!(refusal.contains("is empty") && refusal.contains("holmd join"), "{refusal}");
}

#[tokio::test]
async fn a_store_that_lost_its_end() {
    let mut cluster = used().await;
    let log = cluster.places[0].data_dir().join("log");
    let earlier = cluster.places[0].data_dir().join("earlier");
    copy(&log, &earlier);
    cluster.start(0).await;
    let node = cluster.node(0);
    node.propose(keyed(node, flavor("later", 0)), PATIENCE).await.unwrap();
    cluster.stop(0).await;
    remove(&log);
    std::fs::rename(&earlier, &log).unwrap();
    let refusal = refusal(&cluster).await;
    assert!(refusal.contains("lost its end") && refusal.contains("holmd join"), "{refusal}");
}

#[tokio::test]
async fn a_damaged_store() {
    let cluster = used().await;
    let file = cluster.places[0].data_dir().join("log/db");
    let mut bytes = std::fs::read(&file).unwrap();
    let length = bytes.len();
    bytes[..length / 2].fill(0xa5);
    std::fs::write(&file, &bytes).unwrap();
    let refusal = refusal(&cluster).await;
    assert!(refusal.contains("holmd join"), "{refusal}");
}

#[tokio::test]
async fn another_nodes_store() {
    let cluster = used().await;
    let other = used().await;
    let log = cluster.places[0].data_dir().join("log");
    remove(&log);
    copy(&other.places[0].data_dir().join("log"), &log);
    let refusal = refusal(&cluster).await;
    assert!(refusal.contains("belongs to node 1 of cluster"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_use() {
    let mut cluster = Cluster::one(quick()).await;
    let mut config = cluster.places[0].config();
    config.listen.set_port(0);
    let refusal = start(config).await.err().expect("it must not start").to_string();
    assert!(refusal.contains("another process uses"), "{refusal}");
    cluster.stop_all().await;
}

#[tokio::test]
async fn a_directory_that_holds_a_node_or_held_one() {
    let cluster = used().await;
    let dir = cluster.places[0].data_dir();
    let again = |name: &str| {
        init_cluster(dir, "again", name, "127.0.0.1:1", "127.0.0.1:2").err().unwrap().to_string()
    };
    assert!(again("a").contains("already a node"));
    remove(&dir.join("node.json"));
    let refusal = again("a");
    assert!(refusal.contains("no node.json"), "{refusal}");
    assert!(dir.join("log/db").exists(), "its store is untouched");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_machines_node() {
    let mut cluster = used().await;
    let file = cluster.places[0].data_dir().join("node.json");
    let mut identity: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    if identity["machine"].is_null() {
        // Past libtest's capture, which hides what passing tests print.
        drop(std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("SKIPPED: another_machines_node: this machine has no id\n"),
        ));
        return;
    }
    identity["machine"] = "0123".into();
    std::fs::write(&file, identity.to_string()).unwrap();
    let refusal = refusal(&cluster).await;
    assert!(refusal.contains("another machine (0123;") && refusal.contains("--moved"), "{refusal}");
    let moved = start(Config { moved: true, ..cluster.places[0].config() }).await.unwrap();
    moved.stop().await;
    cluster.start(0).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_with_parts_of_a_node() {
    let mut cluster = Cluster::one(quick()).await;
    let seeds = [cluster.places[0].addr.to_string()];
    let me = "127.0.0.1:2";
    let cases: [(&str, &[u8], &str); 3] = [
        ("snapshot/current.snap", b"of another cluster", "has a snapshot but no node.json"),
        ("log/db", b"the other file is gone", "has a store but no node.json"),
        ("log/db", b"", ""),
    ];
    for (file, bytes, refusal) in cases {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(file);
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        std::fs::write(&file, bytes).unwrap();
        let joined = join_cluster(dir.path(), &seeds, "b", me, me, PATIENCE).await;
        if refusal.is_empty() {
            joined.unwrap();
            continue;
        }
        let said = joined.err().unwrap().to_string();
        assert!(said.contains(refusal), "{said}");
        let said = init_cluster(dir.path(), "c", "b", me, me).err().unwrap().to_string();
        assert!(said.contains(refusal), "{said}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes, "it is untouched");
        assert_eq!(cluster.node(0).state().state.nodes.len(), 1, "no place was given away");
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_whose_store_is_in_use_or_damaged_is_not_cleared() {
    let mut cluster = Cluster::one(quick()).await;
    let dir = cluster.places[0].data_dir().to_owned();
    remove(&dir.join("node.json"));
    let again = || init_cluster(&dir, "c", "b", "127.0.0.1:1", "127.0.0.1:1").err().unwrap().to_string();
    let refusal = again();
    assert!(refusal.contains("another process uses"), "{refusal}");
    cluster.stop_all().await;
    // The node that ran wrote it anew.
    remove(&dir.join("node.json"));
    let mut bytes = std::fs::read(dir.join("log/db")).unwrap();
    let length = bytes.len();
    bytes[..length / 2].fill(0xa5);
    std::fs::write(dir.join("log/db"), &bytes).unwrap();
    let refusal = again();
    assert!(refusal.contains("damaged"), "{refusal}");
    assert!(dir.join("log/db").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_clusters_snapshot() {
    let every_few = Timing { snapshot_every: 10, ..quick() };
    let mut other = Cluster::one(every_few).await;
    for n in 0..40 {
        let node = other.node(0);
        node.propose(keyed(node, flavor(&format!("f{n}"), 0)), PATIENCE).await.unwrap();
    }
    support::eventually("there is a snapshot", || other.node(0).status().borrow().snapshot_index > 0).await;
    other.stop_all().await;
    let cluster = used().await;
    let snapshots = cluster.places[0].data_dir().join("snapshot");
    copy(&other.places[0].data_dir().join("snapshot"), &snapshots);
    let refusal = refusal(&cluster).await;
    assert!(refusal.contains("belongs to cluster") && refusal.contains("holmd join"), "{refusal}");
}

#[tokio::test]
async fn names_and_addresses_that_cannot_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let attempt = |cluster: &str, node: &str, peer: &str, api: &str| {
        init_cluster(&dir.path().join("data"), cluster, node, peer, api).err().unwrap().to_string()
    };
    let good = "127.0.0.1:1";
    assert!(attempt("", "a", good, good).starts_with("cluster name: must not be empty"));
    assert!(attempt("c", "-a", good, good).starts_with("node name: must begin with a letter"));
    assert!(attempt("c", "a", "nowhere", good).starts_with("peer address: `nowhere` has no port"));
    assert!(attempt("c", "a", "h:0", good).starts_with("peer address: `h:0` has no usable port"));
    assert!(attempt("c", "a", good, "0.0.0.0:7").starts_with("API address: `0.0.0.0:7` is not an address"));
    let long = format!("{}:1", "h".repeat(300));
    assert!(attempt("c", "a", &long, good).starts_with("first node: peer_addr: "));
    assert!(!dir.path().join("data").exists(), "nothing was made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_without_a_member_or_under_a_taken_name() {
    let mut cluster = Cluster::one(quick()).await;
    let seeds = [cluster.places[0].addr.to_string()];
    let dir = tempfile::tempdir().unwrap();
    let me = "127.0.0.1:1";
    let taken = join_cluster(dir.path(), &seeds, "node-1", me, me, PATIENCE).await.err().unwrap().to_string();
    assert!(taken.contains("refused") && taken.contains("`node-1` is taken"), "{taken}");
    assert!(!dir.path().join("node.json").exists());

    let nobody = [support::free_addr().to_string()];
    let soon = std::time::Duration::from_millis(300);
    let alone = join_cluster(dir.path(), &nobody, "b", me, me, soon).await.err().unwrap().to_string();
    assert!(alone.contains("no member let this node in") && alone.contains("cannot connect"), "{alone}");
    cluster.stop_all().await;
}
