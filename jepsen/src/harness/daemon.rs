//! One `holmd`: its folder, its addresses, its process. `init`, `join` and `run` are called as an operator
//! would; kill and stop are verified by how the process ended.

use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::address::Addresses;
use super::client::{Client, Endpoint};
use super::cluster::Setup;
use super::place::Place;

/// A stop of a daemon takes less than this.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// The driver the daemons use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hypervisor {
    Simulated,
    CloudHypervisor,
}

impl Hypervisor {
    /// As `holmd run --hypervisor` takes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::CloudHypervisor => "cloud-hypervisor",
        }
    }
}

/// One node.
#[derive(Debug)]
pub struct Daemon {
    pub name: String,
    pub addresses: Addresses,
    dir: PathBuf,
    program: PathBuf,
    setup: Setup,
    /// Where its processes run; on this host's own network, without a disk of its own, unless given.
    place: Option<Place>,
    endpoint: Endpoint,
    /// How fast its clock goes, as its program takes it.
    clock_rate: Option<String>,
    child: Option<Child>,
}

impl Daemon {
    /// A node whose folder is `dir`; nothing is started.
    ///
    /// # Errors
    /// When its folder cannot be made.
    pub fn new(name: &str, addresses: Addresses, dir: &Path, program: &Path, setup: &Setup) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        Ok(Self {
            name: name.to_owned(),
            addresses,
            dir: dir.to_owned(),
            program: program.to_owned(),
            setup: setup.clone(),
            place: None,
            endpoint: addresses.api.into(),
            clock_rate: None,
            child: None,
        })
    }

    /// The same node, with its processes at `place`.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self.endpoint = Endpoint::Unix(Box::leak(self.run_dir().join("api.sock").into_boxed_path()));
        self
    }

    /// From now on this host's clock goes faster by so many millionths, for everything that is started there.
    ///
    /// # Errors
    /// When this host's own clock cannot be read.
    pub fn run_clock_at(&mut self, ppm: i64) -> Result<()> {
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME)?;
        self.clock_rate = Some(format!("{}:{ppm}", Duration::from(now).as_nanos()));
        Ok(())
    }

    /// Its clock goes as it was told to, if it was: the daemon says so when it starts.
    ///
    /// # Errors
    /// When it does not.
    pub fn check_clock(&self) -> Result<()> {
        let Some(rate) = &self.clock_rate else { return Ok(()) };
        let seen = std::fs::read_to_string(self.clock_file().with_extension("rate")).unwrap_or_default();
        if seen != *rate {
            bail!("the clock of {} goes at `{seen}`, and should at `{rate}`", self.name);
        }
        Ok(())
    }

    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Of this node alone: its log, sockets and data lie below.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where clients of the harness speak to it: never over a network that has faults.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    fn command(&self) -> Command {
        match &self.place {
            Some(place) => place.command(&self.program),
            None => Command::new(&self.program),
        }
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub fn run_dir(&self) -> PathBuf {
        self.dir.join("run")
    }

    pub fn log_file(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// By how much its wall clock is wrong, in milliseconds; where it has the program that reads this.
    pub fn clock_file(&self) -> PathBuf {
        self.dir.join("clock")
    }

    /// A fresh client of this node.
    pub fn client(&self) -> Client {
        Client::new(self.endpoint())
    }

    /// Pid of the running daemon.
    pub fn pid(&self) -> Option<i32> {
        self.child.as_ref().and_then(|child| i32::try_from(child.id()).ok())
    }

    /// `holmd init`.
    ///
    /// # Errors
    /// With the daemon's own words.
    pub fn init(&self, cluster: &str) -> Result<()> {
        self.prepare(&["init", "--cluster", cluster])
    }

    /// `holmd join`.
    ///
    /// # Errors
    /// With the daemon's own words.
    pub fn join(&self, seed: &Daemon) -> Result<()> {
        self.prepare(&["join", "--seed", &seed.addresses.peer.to_string()])
    }

    fn prepare(&self, words: &[&str]) -> Result<()> {
        let output = self
            .command()
            .args(words)
            .args(self.place.iter().map(|_| "--insecure"))
            .args(["--name", &self.name])
            .args(["--peer-listen", &self.addresses.peer.to_string()])
            .args(["--api-listen", &self.addresses.api.to_string()])
            .arg("--data-dir")
            .arg(self.data_dir())
            .output()
            .context("cannot run holmd")?;
        if !output.status.success() {
            bail!("holmd {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    /// `holmd run`. Its words go to the end of the log.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(&mut self) -> Result<()> {
        if self.child.is_some() {
            bail!("{} runs already", self.name);
        }
        let log = OpenOptions::new().create(true).append(true).open(self.log_file())?;
        let mut command = self.command();
        command
            .args(["run", "--hypervisor", self.setup.hypervisor.as_str(), "--data-dir"])
            .arg(self.data_dir())
            .arg("--run-dir")
            .arg(self.run_dir())
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        if let Some(path) = &self.setup.search_path {
            command.env("PATH", path);
        }
        if let Some(plant) = &self.setup.plant {
            command.env("HOLM_PLANT", plant).env("HOLM_CLOCK_FILE", self.clock_file());
        }
        if let Some(rate) = &self.clock_rate {
            command.env("HOLM_CLOCK_RATE", rate);
        }
        self.child = Some(command.spawn().context("cannot start holmd")?);
        Ok(())
    }

    /// Its log, votes and snapshots are lost; who it is is not. It must not run.
    ///
    /// # Errors
    /// When something stays.
    pub fn wipe_store(&self) -> Result<()> {
        for part in ["log", "snapshot"] {
            let dir = self.data_dir().join(part);
            if dir.exists() {
                std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
            }
        }
        Ok(())
    }

    /// Bytes of its log are not what was written, from `share` of it on: others, or gone. It must not run.
    ///
    /// # Errors
    /// When the file cannot be changed.
    pub fn damage_log(&self, share: f64, gone: bool) -> Result<()> {
        use std::os::unix::fs::FileExt;
        let path = self.data_dir().join("log/db");
        let file = OpenOptions::new().write(true).open(&path).with_context(|| path.display().to_string())?;
        let from = (file.metadata()?.len() as f64 * share) as u64;
        if gone {
            file.set_len(from)?;
        } else {
            let noise: Vec<u8> = (0..64 * 1024).map(|_| rand::random()).collect();
            file.write_all_at(&noise, from)?;
        }
        file.sync_all().context("the damage is not durable")
    }

    /// The host is as new: nothing of a node is left. It must not run.
    ///
    /// # Errors
    /// When something stays.
    pub fn wipe(&self) -> Result<()> {
        for entry in std::fs::read_dir(self.data_dir())? {
            let path = entry?.path();
            // Made by the file system itself.
            if path.ends_with("lost+found") {
                continue;
            }
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(())
    }

    /// SIGKILL. Answers once the process is gone, and only if that signal ended it.
    ///
    /// # Errors
    /// When it had ended by itself before.
    pub fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().with_context(|| format!("{} does not run", self.name))?;
        child.kill()?;
        let status = child.wait()?;
        if status.signal() != Some(Signal::SIGKILL as i32) {
            bail!("{} had ended by itself ({status}): {}", self.name, self.last_words());
        }
        Ok(())
    }

    /// SIGTERM, and waits for the orderly end.
    ///
    /// # Errors
    /// When it ends with another code than 0, or not in time; it is then killed.
    pub fn stop(&mut self) -> Result<()> {
        let mut child = self.child.take().with_context(|| format!("{} does not run", self.name))?;
        kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if began.elapsed() > STOP_LIMIT {
                child.kill()?;
                child.wait()?;
                bail!("{} does not stop within {} s", self.name, STOP_LIMIT.as_secs());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        if !status.success() {
            bail!("{} stopped badly ({status}): {}", self.name, self.last_words());
        }
        Ok(())
    }

    /// How it ended, if it did so although nobody asked; it can be started again afterwards.
    pub fn ended_by_itself(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.child = None;
        Some(status)
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
