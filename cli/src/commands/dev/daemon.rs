//! Finds `holmd` and runs it: briefly, to prepare a node, or for good.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::process::Process;
use super::record::DevNode;
use crate::args::dev::Hypervisor;
use crate::error::Error;

/// Lines of a daemon's log that are shown when it fails.
const LOG_LINES: usize = 8;

/// The daemon's binary: `$HOLMD`, beside this one, or on PATH.
pub fn find() -> Result<PathBuf, Error> {
    let missing = |detail: String| {
        let hint = "build it with `cargo build -p holm-node`, or name it in the variable HOLMD";
        Error::Failed { detail, hint: Some(hint.into()) }
    };
    if let Some(named) = std::env::var_os("HOLMD").filter(|name| !name.is_empty()) {
        let named = PathBuf::from(named);
        let detail = format!("HOLMD names {}, which is not a file", named.display());
        return if named.is_file() { Ok(named) } else { Err(missing(detail)) };
    }
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(|dir| dir.join("holmd"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|dir| dir.join("holmd"));
    beside
        .into_iter()
        .chain(on_path)
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| missing("`holmd` is neither beside `holm` nor on PATH".into()))
}

/// Runs a command of the daemon to its end.
pub async fn run<I, S>(holmd: &Path, args: I) -> Result<(), Error>
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = tokio::process::Command::new(holmd);
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    let verb = command.as_std().get_args().next().unwrap_or_default().to_string_lossy().into_owned();
    let output = command.output().await.map_err(Error::file("run", holmd))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Failed { detail: format!("`holmd {verb}` failed: {}", last_lines(&said)), hint: None })
}

/// Starts the daemon of `node` for good: it outlives this command and its terminal.
pub fn start(holmd: &Path, node: &DevNode, hypervisor: Hypervisor) -> Result<Process, Error> {
    let log = OpenOptions::new().create(true).append(true).open(&node.log);
    let log: File = log.map_err(Error::file("open", &node.log))?;
    let errors = log.try_clone().map_err(Error::file("open", &node.log))?;
    let child = Command::new(holmd)
        .arg("run")
        .arg("--data-dir")
        .arg(&node.data_dir)
        .arg("--run-dir")
        .arg(&node.run_dir)
        .args(["--hypervisor", &hypervisor.name()])
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        // Its own process group: Ctrl-C in this terminal is not meant for it.
        .process_group(0)
        .spawn()
        .map_err(Error::file("run", holmd))?;
    let pid = i32::try_from(child.id()).expect("process ids fit into pid_t");
    Process::find(pid).ok_or_else(|| failed(node))
}

/// The daemon of `node` has ended; what it said last.
pub fn failed(node: &DevNode) -> Error {
    let log = std::fs::read(&node.log).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    Error::Failed {
        detail: format!("the daemon of {} has ended: {}", node.name, last_lines(&log)),
        hint: Some(format!("its whole log is {}", node.log.display())),
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    if last.is_empty() { "it said nothing".into() } else { last.join("\n  ") }
}
