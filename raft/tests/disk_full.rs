//! A disk that fills up: the node ends with words, and what it freed is enough to come back with everything
//! it acknowledged. On a small file system of its own.

mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use futures::future::join_all;
use holm_raft::{EXIT_CODE, Timing};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use support::{Cluster, PATIENCE, flavor, keyed, quick};
use tempfile::TempDir;

const DIR: &str = "HOLM_DISK_FULL_DIR";
/// Writes under way at once.
const BATCH: usize = 16;

/// Taken down when dropped.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new() -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        let options = Some("size=112m");
        mount(Some("holm"), dir.path(), Some("tmpfs"), MsFlags::empty(), options)
            .map_err(|error| format!("cannot mount a small tmpfs: {error}"))?;
        Ok(Self(dir))
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
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
            // Past libtest's capture, which hides what passing tests print.
            drop(std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!(
                    "SKIPPED: a_full_disk_ends_the_node_and_what_it_acknowledged_comes_back: {why}\n"
                ),
            ));
            return;
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
