//! A harness that is killed cannot clean up: the next one does, and an interrupted one does so itself.

mod isolation;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Result;
use holm_jepsen::harness::{process, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const LIMIT: Duration = Duration::from_secs(60);

/// A run in the background, with folders below `temp`.
struct Run(Child);

impl Run {
    fn start(temp: &Path) -> Result<Self> {
        let child = Command::new(env!("CARGO_BIN_EXE_holm-jepsen"))
            .args(["run", "--test", "vm-lifecycle", "--nemesis", "kill", "--rounds", "1000", "--store"])
            .arg(temp.join("store"))
            .env("TMPDIR", temp)
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }

    /// Begins the names of its namespaces.
    fn prefix(&self) -> String {
        format!("holmj-{}-", self.0.id())
    }

    fn namespaces(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
        all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&self.prefix()))
            .map(|entry| entry.path())
            .collect()
    }

    fn end(&mut self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.0.id())?), signal)?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Only where the test failed: whatever is left is cleaned up by the next start of a harness.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn folders(temp: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(temp).into_iter().flatten().flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with("holm-"))
        .map(|entry| entry.path())
        .collect()
}

fn mounts(temp: &Path) -> usize {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|at| Path::new(at).starts_with(temp))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_harness_left_is_removed_by_the_next_and_nothing_else() -> Result<()> {
    if isolation::skipped("what_a_killed_harness_left") {
        return Ok(());
    }
    let temp = tempfile::Builder::new().prefix("hj").tempdir()?;
    let temp = temp.path();
    let works = || async { Ok((process::of_folder(temp).len() >= 3).then_some(())) };
    let mut killed = Run::start(temp)?;
    wait_for("three daemons", LIMIT, works).await?;
    killed.end(Signal::SIGKILL)?;
    let left = folders(temp);
    assert_eq!((left.len(), mounts(temp), killed.namespaces().len()), (1, 3, 4));

    let mut next = Run::start(temp)?;
    wait_for("the leftovers to go and the next run to work", LIMIT, || async {
        let gone = !left[0].exists() && killed.namespaces().is_empty();
        Ok((gone && mounts(temp) == 3 && next.namespaces().len() == 4).then_some(()))
    })
    .await?;
    next.end(Signal::SIGTERM)?;
    assert_eq!(folders(temp), Vec::<PathBuf>::new());
    assert_eq!((mounts(temp), next.namespaces().len()), (0, 0));
    assert_eq!(process::of_folder(temp), []);
    Ok(())
}
