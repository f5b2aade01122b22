//! A harness that is killed cannot clean up: the next one does, and touches nothing of another that works; one that is
//! interrupted cleans up itself. Looked at from outside: processes, folders, mounts, loop devices, namespaces, links, rules.

mod isolation;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Result;
use holm_jepsen::harness::{Process, process, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const LIMIT: Duration = Duration::from_secs(60);

/// A run in the background, with folders below `temp`.
struct Run(Child);

impl Run {
    fn start(temp: &Path) -> Result<Self> {
        // With faults that end no daemon, so that whoever ends one is another harness.
        let child = Command::new(env!("CARGO_BIN_EXE_holm-jepsen"))
            .args([
                "run",
                "--test",
                "vm-lifecycle",
                "--nemesis",
                "partition-clients",
                "--rounds",
                "1000",
                "--store",
            ])
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

    fn is_running(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_none())
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

/// What a harness could leave on a host besides processes, one thing a line: what lies below `temp`, the namespaces of
/// these runs, and whatever is in this host's own network.
fn traces(temp: &Path, runs: &[&Run]) -> BTreeSet<String> {
    let said = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output().map(|output| output.stdout);
        String::from_utf8_lossy(&output.unwrap_or_default()).into_owned()
    };
    let below = |text: String, word: &'static str| {
        let here = temp.display().to_string();
        let lines = text.lines().filter(|line| line.contains(&here)).map(|line| format!("{word} {line}"));
        lines.collect::<Vec<_>>()
    };
    let namespaces = runs.iter().flat_map(|run| run.namespaces()).map(|path| path.display().to_string());
    let links = said("ip", &["-br", "link"]);
    let links = links.lines().filter_map(|line| Some(format!("link {}", line.split_whitespace().next()?)));
    let rules = said("nft", &["list", "tables"]);
    let rules = rules.lines().map(|line| format!("rules {line}"));
    let folders = folders(temp).into_iter().map(|path| path.display().to_string());
    let mounts = below(std::fs::read_to_string("/proc/self/mounts").unwrap_or_default(), "mount");
    let loops = below(said("losetup", &["--list", "--noheadings", "--output", "NAME,BACK-FILE"]), "loop");
    namespaces.chain(links).chain(rules).chain(folders).chain(mounts).chain(loops).collect()
}

fn folders(temp: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(temp).into_iter().flatten().flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with("holm-"))
        .map(|entry| entry.path())
        .collect()
}

/// The folder that is there and is none of these.
async fn folder_beside(temp: &Path, others: &[&PathBuf]) -> Result<PathBuf> {
    wait_for("three daemons", LIMIT, || async {
        let mine = folders(temp).into_iter().find(|folder| !others.contains(&folder));
        Ok(mine.filter(|folder| daemons(folder).len() >= 3))
    })
    .await
}

fn daemons(folder: &Path) -> Vec<Process> {
    process::of_folder(folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_harness_left_is_removed_by_the_next_and_nothing_else() -> Result<()> {
    if isolation::skipped("what_a_killed_harness_left") {
        return Ok(());
    }
    let temp = tempfile::Builder::new().prefix("hj").tempdir()?;
    let temp = temp.path();
    let before = traces(temp, &[]);
    let mut killed = Run::start(temp)?;
    let left = folder_beside(temp, &[]).await?;
    let mut other = Run::start(temp)?;
    let others = folder_beside(temp, &[&left]).await?;
    assert!(left.exists() && daemons(&left).len() >= 3, "the second left the first alone");
    killed.end(Signal::SIGKILL)?;
    let count = |what: &str| traces(temp, &[&killed]).iter().filter(|trace| trace.starts_with(what)).count();
    assert_eq!((left.exists(), killed.namespaces().len()), (true, 5), "a node each, the clients, the switch");
    assert_eq!((count("mount"), count("loop")), (6, 6));

    let mut next = Run::start(temp)?;
    let nexts = folder_beside(temp, &[&left, &others]).await?;
    assert!(
        !left.exists() && killed.namespaces().is_empty(),
        "the leftovers are gone before the next run works"
    );
    assert_eq!((count("mount"), count("loop")), (6, 6), "the second run's and the third's");
    assert!(others.exists() && other.is_running()? && other.namespaces().len() == 5, "the second goes on");

    next.end(Signal::SIGTERM)?;
    assert!(!nexts.exists() && next.namespaces().is_empty());
    assert!(others.exists() && other.is_running()?, "the second still goes on");
    other.end(Signal::SIGINT)?;
    assert_eq!(process::of_folder(temp), []);
    wait_for("nothing to be left that was not there before", LIMIT, || async {
        Ok(traces(temp, &[&killed, &other, &next]).is_subset(&before).then_some(()))
    })
    .await
}
