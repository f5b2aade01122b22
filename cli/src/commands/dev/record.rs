//! `dev.json`: what the local cluster consists of. Written (temporary file, rename) whenever a daemon was
//! started, so that `down` finds every one of them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::daemon;
use super::process::Process;
use crate::args::dev::Hypervisor;
use crate::client::{Client, Endpoint};
use crate::error::Error;
use crate::output::Record;
use crate::output::text::Now;

/// Its name in the directory.
const FILE: &str = "dev.json";

/// The local cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevCluster {
    /// As last asked for.
    #[serde(default)]
    pub hypervisor: Hypervisor,
    pub nodes: Vec<DevNode>,
}

/// One daemon of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevNode {
    pub name: String,
    pub api: String,
    pub peer: String,
    pub data_dir: PathBuf,
    pub run_dir: PathBuf,
    pub log: PathBuf,
    /// `holmd init` or `holmd join` has succeeded.
    pub prepared: bool,
    /// The latest run of its daemon.
    pub process: Option<Process>,
}

impl DevNode {
    pub fn is_running(&self) -> bool {
        self.process.is_some_and(Process::is_running)
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::parse(&self.api).expect("addresses were written by `dev up`")
    }
}

impl DevCluster {
    /// The cluster in `dir`; none when there is none.
    pub fn read(dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("read", path)(error)),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| Error::Failed {
            detail: format!("{} is damaged: {error}", path.display()),
            hint: Some("stop its daemons by hand, then remove the directory".into()),
        })
    }

    /// The cluster in `dir`, or the sentence that there is none.
    pub fn expect(dir: &Path) -> Result<Self, Error> {
        let detail = || format!("there is no local cluster in {}", dir.display());
        Self::read(dir)?
            .ok_or_else(|| Error::Failed { detail: detail(), hint: Some("`holm dev up` starts one".into()) })
    }

    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let (path, temporary) = (dir.join(FILE), dir.join("dev.json.new"));
        fs::write(&temporary, crate::output::json(self)).map_err(Error::file("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(Error::file("write", path))
    }

    /// Starts the daemon of a node that is prepared and does not run.
    pub fn start(&mut self, at: usize, dir: &Path, holmd: &Path) -> Result<(), Error> {
        let node = &self.nodes[at];
        if node.is_running() {
            return Ok(());
        }
        fs::create_dir_all(&node.run_dir).map_err(Error::file("make", &node.run_dir))?;
        self.nodes[at].process = Some(daemon::start(holmd, node, self.hypervisor)?);
        self.write(dir)
    }

    pub fn remove_file(dir: &Path) -> Result<(), Error> {
        let path = dir.join(FILE);
        fs::remove_file(&path).map_err(Error::file("remove", path))
    }

    /// A client of all its nodes.
    pub fn client(&self) -> Client {
        Client::new(self.nodes.iter().map(DevNode::endpoint).collect())
    }

    /// What to put into the environment so that `holm` finds it.
    pub fn endpoints(&self) -> String {
        self.nodes.iter().map(|node| node.api.as_str()).collect::<Vec<_>>().join(",")
    }
}

/// A daemon with what is known of it now.
#[derive(Clone, Debug, Serialize)]
pub struct DevStatus {
    #[serde(flatten)]
    pub node: DevNode,
    pub running: bool,
    /// Ready, or why not.
    pub health: String,
}

impl Record for DevStatus {
    const COLUMNS: &'static [&'static str] = &["NAME", "PROCESS", "HEALTH", "API", "LOG"];

    fn name(&self) -> String {
        self.node.name.clone()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        let process = match self.node.process {
            Some(process) if self.running => process.pid.to_string(),
            _ => "ended".into(),
        };
        let log = self.node.log.display().to_string();
        vec![self.node.name.clone(), process, self.health.clone(), self.node.api.clone(), log]
    }

    fn detail(&self, now: Now) -> String {
        self.row(now).join("  ") + "\n"
    }
}
