//! A disk that fills up: the node ends with words, and what it freed is enough to come back with everything
//! it acknowledged; where only snapshots have no room it goes on. On small file systems of their own.

mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use futures::future::join_all;
use holm_raft::{EXIT_CODE, Timing};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use support::{Cluster, PATIENCE, eventually, flavor, keyed, quick};
use tempfile::TempDir;

const DIR: &str = "HOLM_DISK_FULL_DIR";
/// Writes under way at once.
const BATCH: usize = 16;

/// Taken down when dropped.
struct SmallDisk {
    path: PathBuf,
    /// Deletes the mount point; none when somebody else does.
    _temporary: Option<TempDir>,
}

impl SmallDisk {
    fn new() -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        let mut disk = Self::over(dir.path(), "112m")?;
        disk._temporary = Some(dir);
        Ok(disk)
    }

    /// Over a directory that is there.
    fn over(path: &Path, size: &str) -> Result<Self, String> {
        let options = format!("size={size}");
        mount(Some("holm"), path, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()))
            .map_err(|error| format!("cannot mount a small tmpfs: {error}"))?;
        Ok(Self { path: path.to_owned(), _temporary: None })
    }

    fn path(&self) -> PathBuf {
        self.path.clone()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
    }
}

/// Past libtest's capture, which hides what passing tests print.
fn skip(test: &str, why: &str) {
    drop(std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("SKIPPED: {test}: {why}\n")));
}

/// Without purging, so that the log fills the disk.
fn hoarding() -> Timing {
    Timing { snapshot_every: 1_000_000, ..quick() }
}

/// Not a test by itself: the other starts it as a process of its own.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let cluster = Cluster::one_in(Path::new(&dir), hoarding()).await;
        let node = cluster.node(0);
        println!();
        for first in (0..).step_by(BATCH) {
            let writes = (first..first + BATCH).map(|n| {
                let proposal = keyed(node, flavor(&format!("f{n}"), 16_000));
                async move { node.propose(proposal, PATIENCE).await.unwrap() }
            });
            join_all(writes).await.iter().for_each(|_| println!("WROTE"));
        }
    });
}

#[test]
fn a_full_disk_ends_the_node_and_what_it_acknowledged_comes_back() {
    let disk = match SmallDisk::new() {
        Ok(disk) => disk,
        Err(why) => {
            return skip("a_full_disk_ends_the_node_and_what_it_acknowledged_comes_back", &why);
        }
    };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(DIR, disk.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let wrote = lines.filter(|line| line == "WROTE").count();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(EXIT_CODE), "{said}");
    assert!(said.contains("cannot go on") && said.contains("No space left"), "{said}");
    assert!(wrote > 100, "{wrote}");
    assert!(!disk.path().join("data/reserve").exists(), "the reserve was given up");

    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut cluster = Cluster::one_in(&disk.path(), hoarding()).await;
        let node = cluster.node(0);
        assert!(node.state().state.flavors.len() >= wrote);
        node.propose(keyed(node, flavor("there-is-room-again", 0)), PATIENCE).await.unwrap();
        cluster.stop_all().await;
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_room_for_a_snapshot_the_log_goes_on_and_the_next_one_is_written_when_there_is_room() {
    let mut cluster = Cluster::one(Timing { snapshot_every: 50, keep: 10, ..quick() }).await;
    let disk = match SmallDisk::over(&cluster.places[0].data_dir().join("snapshot"), "64k") {
        Ok(disk) => disk,
        Err(why) => {
            return skip(
                "without_room_for_a_snapshot_the_log_goes_on_and_the_next_one_is_written_when_there_is_room",
                &why,
            );
        }
    };
    let node = cluster.node(0);
    for n in 0..120 {
        node.propose(keyed(node, flavor(&format!("f{n}"), 16_000)), PATIENCE).await.unwrap();
    }
    eventually("the problem is told", || {
        node.status().borrow().snapshot_problem.as_ref().is_some_and(|why| why.contains("No space left"))
    })
    .await;
    let purged = node.status().borrow().purged_index;
    node.propose(keyed(node, flavor("still", 0)), PATIENCE).await.unwrap();
    assert_eq!(node.status().borrow().purged_index, purged, "nothing goes that no snapshot holds");

    drop(disk);
    eventually("a snapshot is written and the log purged", || {
        let status = node.status().borrow().clone();
        status.snapshot_problem.is_none() && status.snapshot_index > 100 && status.purged_index > purged
    })
    .await;
    cluster.stop(0).await;
    cluster.start(0).await;
    eventually("all is there", || cluster.node(0).state().state.flavors.len() == 121).await;
    cluster.stop_all().await;
}
