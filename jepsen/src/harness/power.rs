//! Power of whole nodes: when it goes, so does everything that runs there and everything that was not durable.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cluster::Cluster;
use super::process::{self, Stopped};

/// A signal has taken effect by then.
const SIGNAL_LIMIT: Duration = Duration::from_secs(5);

/// Processes of one host that stand still; they go on when this is dropped.
#[derive(Debug)]
pub struct Frozen(Vec<Stopped>);

impl Frozen {
    /// Lets the host go on.
    ///
    /// # Errors
    /// When a process was ended meanwhile.
    pub fn go_on(self) -> Result<()> {
        self.0.into_iter().rev().try_for_each(Stopped::go_on)
    }
}

impl Cluster {
    /// Stops every process of a host where it is. Verified: all their threads stand still.
    ///
    /// # Errors
    /// When one goes on.
    pub fn freeze_host(&self, at: usize) -> Result<Frozen> {
        let began = Instant::now();
        let mut frozen = Vec::new();
        loop {
            let mut found = process::of_folder(self.daemons[at].dir());
            found.retain(|process| process.is_alive() && !stands_still(process.pid));
            if found.is_empty() {
                return Ok(Frozen(frozen));
            }
            if began.elapsed() > SIGNAL_LIMIT {
                bail!("processes do not stop: {found:?}");
            }
            // One that has ended since stands still, too.
            frozen.extend(found.iter().filter_map(|process| process.stop().ok()));
        }
    }

    /// The power of `nodes` goes at one moment. Verified: no process of theirs is left and the disks are off.
    ///
    /// # Errors
    /// When a node goes on.
    pub fn power_off(&mut self, nodes: &[usize]) -> Result<()> {
        let folders: Vec<_> = nodes.iter().map(|at| self.daemons[*at].dir().to_owned()).collect();
        // Frozen first: nothing is to run that sees its disk go, as nothing does when the power goes.
        let frozen: Vec<_> = folders.iter().flat_map(|folder| process::of_folder(folder)).collect();
        for process in &frozen {
            let _ = kill(Pid::from_raw(process.pid), Signal::SIGSTOP);
        }
        // A thread that waits for the disk stops a little later.
        let began = Instant::now();
        while frozen.iter().any(|process| process.is_alive() && !stands_still(process.pid)) {
            if began.elapsed() > SIGNAL_LIMIT {
                bail!("processes do not stop: {frozen:?}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for at in nodes {
            self.scratch.disks.get(*at).context("the node has no disk of its own")?.cut()?;
        }
        for at in nodes {
            // A host may have no daemon running.
            if self.daemons[*at].pid().is_some() {
                self.daemons[*at].kill()?;
            }
        }
        for folder in &folders {
            end_all(folder)?;
        }
        for at in nodes {
            self.scratch.disks[*at].unmount()?;
            // It was on tmpfs.
            let _ = std::fs::remove_dir_all(self.daemons[*at].run_dir());
        }
        Ok(())
    }

    /// The power is back: the host boots and starts its daemon.
    ///
    /// # Errors
    /// When that cannot be done.
    pub fn power_on(&mut self, at: usize) -> Result<()> {
        self.boot(at)?;
        self.daemons[at].start()
    }

    /// The power is back: the host boots, and no daemon starts.
    ///
    /// # Errors
    /// When that cannot be done.
    pub fn boot(&mut self, at: usize) -> Result<()> {
        self.scratch.disks.get_mut(at).context("the node has no disk of its own")?.mount()?;
        self.daemons[at].place().context("the node has no place of its own")?.boot()
    }

    /// Stops the daemon's process where it is, without ending it. Verified: all its threads stand still.
    ///
    /// # Errors
    /// When it goes on.
    pub fn pause(&self, at: usize) -> Result<()> {
        self.signal(at, Signal::SIGSTOP, true)
    }

    /// Lets it go on. Verified.
    ///
    /// # Errors
    /// When it does not.
    pub fn resume(&self, at: usize) -> Result<()> {
        self.signal(at, Signal::SIGCONT, false)
    }

    fn signal(&self, at: usize, signal: Signal, still: bool) -> Result<()> {
        let daemon = &self.daemons[at];
        let pid = daemon.pid().with_context(|| format!("{} does not run", daemon.name))?;
        kill(Pid::from_raw(pid), signal)?;
        let began = Instant::now();
        while stands_still(pid) != still {
            if began.elapsed() > SIGNAL_LIMIT {
                bail!("{} does not obey {signal}", daemon.name);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// All threads are in state T.
fn stands_still(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.into_iter().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    })
}

fn end_all(folder: &Path) -> Result<()> {
    let began = Instant::now();
    loop {
        let found = process::of_folder(folder);
        if found.is_empty() {
            return Ok(());
        }
        if began.elapsed() > SIGNAL_LIMIT {
            bail!("processes go on without power: {found:?}");
        }
        for process in found {
            process.kill()?;
        }
    }
}
