//! Processes of this machine, named so that another one that got the same id later is never meant: by id
//! and start time.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

/// One run of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// In clock ticks since the host's boot (field 22 of `/proc/<pid>/stat`).
    pub start_ticks: u64,
}

impl Process {
    /// The process that has this id now; none if it has ended, even if nobody has waited for it yet.
    pub fn find(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, start_ticks) = parse_stat(&stat)?;
        (!matches!(state, 'Z' | 'X')).then_some(Self { pid, start_ticks })
    }

    /// Whether this very process still runs.
    pub fn is_running(self) -> bool {
        Self::find(self.pid) == Some(self)
    }

    /// Signals this very process; false when it has ended.
    pub fn signal(self, signal: Signal) -> bool {
        self.is_running() && kill(Pid::from_raw(self.pid), signal) != Err(Errno::ESRCH)
    }

    /// Waits for its end; false when it still runs after `limit`.
    pub async fn ended_within(self, limit: Duration) -> bool {
        let start = Instant::now();
        while self.is_running() {
            if start.elapsed() > limit {
                return false;
            }
            // There is no event for the end of a process that is not our child.
            sleep(Duration::from_millis(20)).await;
        }
        true
    }
}

/// State and start time. The command in parentheses may hold anything, so the fields count from its end.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// Daemons, shims and VMMs that work in `dir`: they name it in their arguments, run in it, or hold a file
/// in it open. Other programs (a shell, a pager) are nobody's leftovers.
pub fn working_in(dir: &Path) -> Vec<(i32, String)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut found: Vec<_> = pids
        .filter(|pid| Process::find(*pid).is_some() && is_ours(*pid))
        .filter_map(|pid| Some((pid, command_line(pid)?)))
        .filter(|(pid, command)| dir.to_str().is_some_and(|dir| names(command, dir)) || holds(*pid, dir))
        .collect();
    found.sort();
    found
}

fn is_ours(pid: i32) -> bool {
    let binary = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = binary.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // A binary that was built anew is called `holmd (deleted)` in old processes.
    name.starts_with("holmd") || name.starts_with("cloud-hypervisor")
}

fn holds(pid: i32, dir: &Path) -> bool {
    let open =
        std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().map(|fd| fd.path());
    std::iter::once(format!("/proc/{pid}/cwd").into())
        .chain(open)
        .filter_map(|link| std::fs::read_link(link).ok())
        .any(|target| target.starts_with(dir))
}

fn command_line(pid: i32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(String::from_utf8_lossy);
    Some(words.collect::<Vec<_>>().join(" "))
}

/// Whether a path at or below `dir` is in `command`.
fn names(command: &str, dir: &str) -> bool {
    command.match_indices(dir).any(|(at, _)| {
        let after = command[at + dir.len()..].chars().next();
        after.is_none_or(|c| c == '/' || c == ' ' || c == ',')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_whatever_the_command_is_called() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(parse_stat(&format!("7 (a b) S (c) {tail}")), Some(('S', 4711)));
        assert_eq!(parse_stat("7 (holmd"), None);
    }

    #[test]
    fn a_process_with_another_start_time_is_another_process() {
        let own = Process::find(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.is_running());
        let other = Process { start_ticks: own.start_ticks + 1, ..own };
        assert!(!other.is_running());
        assert!(!other.signal(Signal::SIGKILL));
    }

    #[test]
    fn only_whole_path_components_count() {
        assert!(names("holmd run --data-dir /d/dev/n1", "/d/dev"));
        assert!(names("vmm --api path=/d/dev", "/d/dev"));
        assert!(!names("holmd run --data-dir /d/dev2/n1", "/d/dev"));
    }
}
