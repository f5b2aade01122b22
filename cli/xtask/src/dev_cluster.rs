//! A local cluster of real daemons in a folder of its own, made and ended through `holm dev`, as a user
//! does. Ends with this value, whatever happens: politely by [`DevCluster::down`], by SIGKILL without it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use tempfile::TempDir;

use crate::client::Client;
use crate::interrupt;
use crate::process::{self, Process};
use crate::workspace::Programs;

/// How long a cluster may be without a leader.
const LEADER_LIMIT: Duration = Duration::from_secs(30);

/// The running daemons.
#[derive(Debug)]
pub struct DevCluster {
    programs: Programs,
    folder: TempDir,
    nodes: u16,
    hypervisor: &'static str,
    ended: bool,
}

/// One daemon, as `dev.json` lists it.
#[derive(Clone, Debug, Deserialize)]
pub struct DevNode {
    pub name: String,
    /// `host:port` of its API.
    api: String,
    data_dir: PathBuf,
    /// Where its sockets are.
    run_dir: PathBuf,
    pub process: DevProcess,
}

/// Its latest run.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct DevProcess {
    pub pid: i32,
    start_ticks: u64,
}

#[derive(Deserialize)]
struct DevFile {
    nodes: Vec<DevNode>,
}

impl DevNode {
    /// Base URL of its API.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.api)
    }
}

impl DevCluster {
    /// Starts `nodes` daemons below `parent`, and waits until all are ready.
    ///
    /// # Errors
    /// When one does not start; what was started is ended again.
    pub fn up(
        programs: &Programs,
        parent: &Path,
        nodes: u16,
        hypervisor: &'static str,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("holm-")
            .tempdir_in(parent)
            .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
        let cluster = Self { programs: programs.clone(), folder, nodes, hypervisor, ended: false };
        cluster.start_missing()?;
        Ok(cluster)
    }

    /// Starts the daemons that do not run, and waits until all are ready.
    ///
    /// # Errors
    /// When one does not become ready in time.
    pub fn start_missing(&self) -> anyhow::Result<()> {
        let nodes = self.nodes.to_string();
        process::capture(
            self.dev("up")
                .args(["--nodes", &nodes, "--hypervisor", self.hypervisor])
                .arg("--dir")
                .arg(self.dir()),
        )?;
        Ok(())
    }

    /// Restarts all daemons with other values for settings that their configuration has already.
    ///
    /// # Errors
    /// When a setting is not there, or a daemon does not come back.
    pub fn reconfigure(&self, settings: &[(&str, &str)]) -> anyhow::Result<()> {
        process::capture(self.dev("down").arg("--keep").arg("--dir").arg(self.dir()))?;
        for node in self.nodes()? {
            let file = node.data_dir.join("holmd.toml");
            let text =
                fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            fs::write(&file, changed(&text, settings)?)
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        self.start_missing()
    }

    /// The folder that `holm dev --dir` is given.
    pub fn dir(&self) -> PathBuf {
        self.folder.path().join("cluster")
    }

    /// A folder beside it, for files of ours.
    pub fn scratch(&self) -> &Path {
        self.folder.path()
    }

    /// The daemons as last started.
    ///
    /// # Errors
    /// When `dev.json` cannot be read.
    pub fn nodes(&self) -> anyhow::Result<Vec<DevNode>> {
        let file = self.dir().join("dev.json");
        let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let file: DevFile = serde_json::from_slice(&text).context("dev.json is not as expected")?;
        Ok(file.nodes)
    }

    /// The node that leads, as the others see it.
    ///
    /// # Errors
    /// When none does within a while.
    pub fn leader(&self) -> anyhow::Result<DevNode> {
        let nodes = self.nodes()?;
        interrupt::wait_for("a leader", LEADER_LIMIT, || {
            let named = nodes.iter().find_map(|node| {
                let client = Client::new(&node.endpoint(), Duration::from_secs(5));
                let cluster = client.get("/v1/cluster").ok()?;
                Some(cluster["leader"]["name"].as_str()?.to_owned())
            });
            Ok(nodes.iter().find(|node| Some(&node.name) == named.as_ref()).cloned())
        })
    }

    /// Kills a daemon with SIGKILL.
    ///
    /// # Errors
    /// When it does not run, or does not die.
    pub fn kill(&self, node: &DevNode) -> anyhow::Result<()> {
        let running =
            Process::find(node.process.pid).filter(|process| process.start_time == node.process.start_ticks);
        let Some(process) = running else { bail!("node {} does not run", node.name) };
        process.kill()
    }

    /// `holm`, told where this cluster answers.
    ///
    /// # Errors
    /// When `dev.json` cannot be read.
    pub fn holm(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let endpoints: Vec<String> = self.nodes()?.iter().map(DevNode::endpoint).collect();
        let mut command = Command::new(&self.programs.holm);
        command.args(arguments).env("HOLM_ENDPOINTS", endpoints.join(","));
        Ok(command)
    }

    fn dev(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.programs.holm);
        command.args(["dev", verb]).env("HOLMD", &self.programs.holmd);
        command
    }

    /// Deletes the VMs, stops the daemons, removes the data, and looks whether anything is left.
    ///
    /// # Errors
    /// When something is.
    pub fn down(mut self) -> anyhow::Result<()> {
        process::capture(self.dev("down").arg("--dir").arg(self.dir()))?;
        let left = interrupt::wait_for("processes to end", Duration::from_secs(10), || {
            let left = process::processes_of(self.folder.path());
            Ok(left.is_empty().then_some(()))
        });
        if left.is_err() {
            let left = process::processes_of(self.folder.path());
            bail!("`holm dev down` left processes behind: {left:?}");
        }
        if self.dir().exists() {
            bail!("`holm dev down` left {} behind", self.dir().display());
        }
        self.ended = true;
        Ok(())
    }
}

/// TOML with the values of some keys replaced, wherever they are.
fn changed(text: &str, settings: &[(&str, &str)]) -> anyhow::Result<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (key, value) in settings {
        let is_it = |line: &&mut String| line.split_once('=').is_some_and(|(name, _)| name.trim() == *key);
        let line = lines.iter_mut().find(is_it).with_context(|| format!("holmd.toml has no `{key}`"))?;
        *line = format!("{key} = {value}");
    }
    Ok(lines.join("\n") + "\n")
}

impl Drop for DevCluster {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // Something failed, or somebody pressed Ctrl-C: not the moment to wait for a guest to power off.
        let nodes = self.nodes().unwrap_or_default();
        process::end_all(self.folder.path());
        for node in nodes {
            // Elsewhere when the folder's name is too long for sockets.
            let _ = fs::remove_dir_all(node.run_dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_replaced_and_must_be_there() {
        let text = "name = \"n1\"\n\n[inventory]\ncpu_allocation_ratio = 4.0\nram_allocation_ratio = 1.0\n";
        let expected =
            "name = \"n1\"\n\n[inventory]\ncpu_allocation_ratio = 9.0\nram_allocation_ratio = 1.0\n";
        assert_eq!(changed(text, &[("cpu_allocation_ratio", "9.0")]).expect("it is there"), expected);
        let error = changed(text, &[("ratio", "1")]).expect_err("it is not there");
        assert_eq!(error.to_string(), "holmd.toml has no `ratio`");
    }
}
