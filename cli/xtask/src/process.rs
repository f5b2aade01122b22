//! Running other programs: bounded by Ctrl-C, with their words in the error, and told apart from other
//! processes by pid and start time.

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::interrupt;

/// Longest that a command of ours may take: a release build on a slow machine.
const COMMAND_LIMIT: Duration = Duration::from_secs(3600);

/// Killing is repeated this often for those that were being started meanwhile.
const END_ROUNDS: u32 = 5;

/// Runs `command` to its end and gives back what it printed.
///
/// # Errors
/// When it cannot be started, fails (its standard error is in the message), or Ctrl-C came.
pub fn capture(command: &mut Command) -> anyhow::Result<String> {
    let mut child = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let stdout = read_aside(child.0.stdout.take());
    let stderr = read_aside(child.0.stderr.take());
    let status = child.wait(&line(command))?;
    let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    if !status.success() {
        bail!("{} failed ({}): {}", line(command), ended(status), stderr.trim());
    }
    // Warnings of a command that succeeded.
    eprint!("{stderr}");
    Ok(stdout)
}

/// Runs `command` to its end, its words going straight to the terminal.
///
/// # Errors
/// When it cannot be started, fails, or Ctrl-C came.
pub fn show(command: &mut Command) -> anyhow::Result<()> {
    let mut child = Running::start(command)?;
    let status = child.wait(&line(command))?;
    if !status.success() {
        bail!("{} failed ({})", line(command), ended(status));
    }
    Ok(())
}

/// A child that does not outlive us, nor do its children: it leads a process group of its own, which is
/// killed as a whole.
#[derive(Debug)]
pub struct Running(pub Child);

impl Running {
    /// Starts `command` without input.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let child = command.stdin(Stdio::null()).process_group(0).spawn();
        child.map(Self).with_context(|| format!("cannot start {}", line(command)))
    }

    fn wait(&mut self, what: &str) -> anyhow::Result<ExitStatus> {
        interrupt::wait_for(what, COMMAND_LIMIT, || Ok(self.0.try_wait()?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let (Ok(None), Ok(group)) = (self.0.try_wait(), i32::try_from(self.0.id())) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            let _ = self.0.wait();
        }
    }
}

fn read_aside(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut stream) = stream {
            // Whatever came before a failure is still worth showing.
            let _ = stream.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args()).map(OsStr::to_string_lossy);
    format!("`{}`", words.collect::<Vec<_>>().join(" "))
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// A process as the kernel lists it. The start time tells it from a later one with the same pid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    /// In clock ticks since boot.
    pub start_time: u64,
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
        let start_time = fields.get(19)?.parse().ok()?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned();
        Some(Self { pid, start_time, command })
    }

    pub fn is_alive(&self) -> bool {
        Self::find(self.pid).is_some_and(|now| now.start_time == self.start_time)
    }

    /// SIGKILL, and waits until it is gone. Nothing happens to another process that has its pid by now.
    ///
    /// # Errors
    /// When it does not end.
    pub fn kill(&self) -> anyhow::Result<()> {
        if self.is_alive() {
            kill(Pid::from_raw(self.pid), Signal::SIGKILL)
                .with_context(|| format!("cannot kill {}", self.pid))?;
        }
        let limit = Duration::from_secs(10);
        let start = std::time::Instant::now();
        while self.is_alive() {
            if start.elapsed() > limit {
                bail!("process {} does not die: {}", self.pid, self.command);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// Processes, we ourselves left out, that have anything to do with `folder`: named on their command line,
/// or as their working folder, or in an open file.
pub fn processes_of(folder: &Path) -> Vec<Process> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .filter_map(Process::find)
        .filter(|process| {
            process.command.contains(&*folder.to_string_lossy()) || touches(process.pid, folder)
        })
        .collect()
}

/// Kills all of [`processes_of`] `folder`, those they start meanwhile, and removes the cgroups that shims
/// made for themselves and can no longer remove.
pub fn end_all(folder: &Path) {
    for _ in 0..END_ROUNDS {
        let processes = processes_of(folder);
        if processes.is_empty() {
            return;
        }
        let groups: Vec<PathBuf> = processes.iter().filter_map(|process| guest_group(process.pid)).collect();
        for process in processes {
            let _ = process.kill();
        }
        groups.iter().for_each(|group| remove_group(group));
    }
}

/// Removes a cgroup as soon as the last thread has left it, and its parent if it was the last there.
fn remove_group(group: &Path) {
    for _ in 0..END_ROUNDS * 20 {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => thread::sleep(Duration::from_millis(10)),
            _ => break,
        }
    }
    if let Some(guests) = group.parent() {
        let _ = fs::remove_dir(guests);
    }
}

/// The cgroup of a guest's shim or VMM.
fn guest_group(pid: i32) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/holm-guests/"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let root = mounts.lines().find(|mount| mount.contains(" - cgroup2 "))?.split(' ').nth(4)?;
    Some(Path::new(root).join("holm-guests").join(group))
}

fn touches(pid: i32, folder: &Path) -> bool {
    let at = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
    let open = fs::read_dir(at("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    open.chain([at("cwd")]).any(|link| fs::read_link(link).is_ok_and(|to| to.starts_with(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_prints_is_given_back_and_its_failure_is_explained() {
        assert_eq!(capture(Command::new("echo").arg("hello")).expect("echo works"), "hello\n");
        let error =
            capture(Command::new("sh").args(["-c", "echo no disk >&2; exit 3"])).expect_err("it fails");
        assert_eq!(error.to_string(), "`sh -c echo no disk >&2; exit 3` failed (exit code 3): no disk");
        let error = capture(&mut Command::new("no-such-program")).expect_err("there is none");
        assert_eq!(error.to_string(), "cannot start `no-such-program`");
    }

    #[test]
    fn a_process_is_found_by_its_folder_and_gone_after_kill() {
        let folder = tempfile::tempdir().expect("a folder");
        let child =
            Command::new("sleep").arg("1000").current_dir(folder.path()).spawn().expect("sleep starts");
        let _child = Running(child);
        let found = processes_of(folder.path());
        let [process] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(process.command, "sleep 1000");
        assert!(process.is_alive());
        process.kill().expect("it dies");
        // Killed, though nobody has waited for it yet.
        assert!(!process.is_alive());
        assert_eq!(processes_of(folder.path()), []);
    }

    #[test]
    fn children_of_a_child_end_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000; true"]).current_dir(folder.path());
        let child = Running::start(&mut shell).expect("sh starts");
        let both = || (processes_of(folder.path()).len() == 2).then_some(());
        interrupt::wait_for("both", Duration::from_secs(10), || Ok(both())).expect("they run");
        drop(child);
        let none = || processes_of(folder.path()).is_empty().then_some(());
        interrupt::wait_for("none", Duration::from_secs(10), || Ok(none())).expect("they are gone");
    }

    #[test]
    fn another_process_with_the_same_pid_is_not_killed() {
        let child = Running::start(Command::new("sleep").arg("1000")).expect("sleep starts");
        let pid = i32::try_from(child.0.id()).expect("a pid");
        let process = Process::find(pid).expect("it runs");
        let earlier = Process { start_time: process.start_time - 1, ..process.clone() };
        assert!(!earlier.is_alive());
        earlier.kill().expect("nothing to do");
        assert!(process.is_alive());
    }
}
