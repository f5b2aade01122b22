//! A member that failed ends its process, with words and a code: it must never be a zombie that answers. Each
//! case runs in a process of its own.

mod support;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use holm_raft::types::TypeConfig;
use holm_raft::{EXIT_CODE, essential, faults, init_cluster, store};
use openraft::alias::{EntryOf, VoteOf};
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::testing::log_id;
use support::{Cluster, PATIENCE, flavor, keyed, quick};

const CASE: &str = "HOLM_FATAL_CASE";
const DIR: &str = "HOLM_FATAL_DIR";

/// Not a test by itself: the others start it as a process of its own.
#[test]
fn child() {
    let (Ok(case), Some(dir)) = (std::env::var(CASE), std::env::var_os(DIR)) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run(&case, Path::new(&dir)));
}

async fn run(case: &str, dir: &Path) {
    if case == "fsync" {
        return vote_after_a_failed_fsync(dir).await;
    }
    let cluster = Cluster::one_in(dir, quick()).await;
    let node = cluster.node(0);
    match case {
        "apply" => {
            faults::panic_in_apply();
            let _ = node.propose(keyed(node, flavor("f", 0)), PATIENCE).await;
        }
        "core" => faults::panic_in_core(node).await,
        "task" => faults::panic_in_a_task(),
        "ended" => essential("of a test", || false, async {}).await,
        "future" => faults::commit_entry_of_the_future(node).await,
        other => panic!("no case {other}"),
    }
    tokio::time::sleep(PATIENCE).await;
}

/// The store alone: Raft's core would notice the failed append as well, but perhaps after the vote was answered.
async fn vote_after_a_failed_fsync(dir: &Path) {
    let data_dir = dir.join("data");
    let identity = init_cluster(&data_dir, "test", "a", "127.0.0.1:1", "127.0.0.1:2").unwrap();
    let mut store = store::open(&data_dir, &identity).unwrap();
    faults::fail_next_sync();
    let entry = EntryOf::<TypeConfig>::new_blank(log_id::<TypeConfig>(1, 1, 0));
    store.append([entry], IOFlushed::noop()).await.unwrap();
    if store.save_vote(&VoteOf::<TypeConfig>::new(1, 1)).await.is_ok() {
        // Perhaps both shared the fsync that failed.
        println!("VOTED");
    }
    let again = store.save_vote(&VoteOf::<TypeConfig>::new(2, 1)).await;
    println!("VOTED {again:?}");
}

fn fails(case: &str, dir: &Path) -> (Output, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CASE, case)
        .env(DIR, dir)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(EXIT_CODE), "{said}");
    (output, said)
}

#[test]
fn a_panic_in_apply_ends_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let (_, said) = fails("apply", dir.path());
    assert!(said.contains("apply panicked at log entry") && said.contains("CreateFlavor"), "{said}");
}

#[test]
fn a_panic_of_the_core_ends_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let (_, said) = fails("core", dir.path());
    assert!(said.contains("holm: cannot go on: Raft has failed"), "{said}");
}

#[test]
fn a_panic_of_a_task_beside_raft_ends_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let (_, said) = fails("task", dir.path());
    assert!(said.contains("the task `addresses of members` panicked: planted in a task"), "{said}");
}

#[test]
fn a_task_that_ends_though_nobody_stops_the_node_ends_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let (_, said) = fails("ended", dir.path());
    assert!(said.contains("the task `of a test` ended"), "{said}");
}

#[tokio::test]
async fn a_task_that_ends_with_the_node_is_no_failure() {
    essential("of a test", || true, async {}).await;
}

#[test]
fn a_failed_fsync_ends_the_process_before_another_could_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let (output, said) = fails("fsync", dir.path());
    assert!(said.contains("the store cannot be written: planted in the fsync"), "{said}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("VOTED"));
}

#[test]
fn an_entry_of_a_later_version_ends_the_process_and_every_later_start() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let (_, said) = fails("future", dir.path());
        assert!(said.contains("cluster version 2") && said.contains("knows version 1"), "{said}");
    }
}
