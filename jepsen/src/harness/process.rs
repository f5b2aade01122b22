//! Processes as the kernel lists them: told apart by pid and start time, found by the folder they work in.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process. The start time tells it from a later one with the same pid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub pid: i32,
    /// In clock ticks since boot.
    pub start_ticks: u64,
    pub command: String,
}

impl Process {
    /// The process with this pid, unless it has ended; one that only waits to be reaped has.
    pub fn find(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The command name is in parentheses and may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        if matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        let start_ticks = fields.get(19)?.parse().ok()?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned();
        Some(Self { pid, start_ticks, command })
    }

    pub fn is_alive(&self) -> bool {
        Self::find(self.pid).is_some_and(|now| now.start_ticks == self.start_ticks)
    }

    /// SIGKILL, and waits until it is gone. Nothing happens to another process that has its pid by now.
    ///
    /// # Errors
    /// When it does not end.
    pub fn kill(&self) -> Result<()> {
        if self.is_alive() {
            kill(Pid::from_raw(self.pid), Signal::SIGKILL)
                .with_context(|| format!("cannot kill {}", self.pid))?;
        }
        let start = Instant::now();
        while self.is_alive() {
            if start.elapsed() > Duration::from_secs(10) {
                bail!("process {} does not die: {}", self.pid, self.command);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// A process under SIGSTOP; goes on when this is dropped.
#[derive(Debug)]
pub struct Stopped(Process);

impl Process {
    /// SIGSTOP. Verified.
    ///
    /// # Errors
    /// When it has ended, or goes on.
    pub fn stop(&self) -> Result<Stopped> {
        if !self.is_alive() {
            bail!("process {} has ended", self.pid);
        }
        kill(Pid::from_raw(self.pid), Signal::SIGSTOP)?;
        let stopped = Stopped(self.clone());
        let start = Instant::now();
        while !is_stopped(self.pid) {
            if start.elapsed() > Duration::from_secs(5) {
                bail!("process {} does not stop", self.pid);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(stopped)
    }
}

impl Stopped {
    /// SIGCONT.
    ///
    /// # Errors
    /// When it was ended meanwhile.
    pub fn go_on(self) -> Result<()> {
        if !self.0.is_alive() {
            bail!("process {} was ended while it stood still", self.0.pid);
        }
        Ok(())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if self.0.is_alive() {
            let _ = kill(Pid::from_raw(self.0.pid), Signal::SIGCONT);
        }
    }
}

fn is_stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

/// Processes, we ourselves left out, that have anything to do with `folder`: named on their command line,
/// or as their working folder, or in an open file. A VMM has only the latter.
pub fn of_folder(folder: &Path) -> Vec<Process> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found: Vec<_> = pids
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .filter_map(Process::find)
        .filter(|process| names(&process.command, folder) || touches(process.pid, folder))
        .collect();
    found.sort();
    found
}

/// Programs that start a daemon elsewhere, and stay until it has ended or become it.
const WRAPPERS: [&str; 3] = ["nsenter", "unshare", "ip"];

fn names(command: &str, folder: &Path) -> bool {
    let is_daemon = |word: &str| word.rsplit('/').next().is_some_and(|name| name.contains("holmd"));
    let mut words = command.split(' ');
    let program = words.next().unwrap_or_default();
    let wraps = WRAPPERS.iter().any(|wrapper| program.rsplit('/').next() == Some(wrapper));
    // A shell, an editor or a search that somebody points at the folder is not ours to end.
    (is_daemon(program) || wraps && words.clone().any(is_daemon))
        && words.any(|word| Path::new(word).starts_with(folder))
}

fn touches(pid: i32, folder: &Path) -> bool {
    let at = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
    let vmm_or_shim = fs::read_link(at("exe")).is_ok_and(|exe| {
        let exe = exe.to_string_lossy().into_owned();
        exe.contains("holmd") || exe.contains("cloud-hypervisor") || Path::new(&exe).starts_with(folder)
    });
    let open = fs::read_dir(at("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let here = open.chain([at("cwd")]).any(|link| fs::read_link(link).is_ok_and(|to| to.starts_with(folder)));
    here && (vmm_or_shim || descends_from_shim(pid))
}

/// The process that started this one, unless that has ended.
pub fn parent(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let parent: i32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    (parent > 1).then(|| Process::find(parent)).flatten()
}

/// Scripts that stand in for a VMM run under an interpreter; their parent is a shim.
fn descends_from_shim(pid: i32) -> bool {
    parent(pid).is_some_and(|parent| {
        fs::read_link(format!("/proc/{}/exe", parent.pid))
            .is_ok_and(|exe| exe.to_string_lossy().contains("holmd"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_daemons_are_told_by_what_they_name() {
        let folder = Path::new("/tmp/holm-a");
        let ours = |command: &str| names(command, folder);
        assert!(ours("/x/holmd run --data-dir /tmp/holm-a/n1/data"));
        assert!(ours("nsenter --net=/run/netns/n /x/holmd run --data-dir /tmp/holm-a/n1/data"));
        assert!(!ours("/x/holmd run --data-dir /tmp/holm-b/n1/data"));
        assert!(!ours("du -sh /tmp/holm-a /tmp/holmd.log"));
        assert!(!ours("tail -f /tmp/holm-a/n1/holmd.log"));
    }
}
