//! The workspace itself: where it is, and its daemon and command line, built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;

use crate::process;

/// Cargo's profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Dev,
    Release,
}

/// The programs of Holm.
#[derive(Clone, Debug)]
pub struct Programs {
    pub holm: PathBuf,
    pub holmd: PathBuf,
}

/// Where the workspace is.
///
/// # Panics
/// Never: the crate lies two folders below it.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("cli/xtask lies two folders below the root")
}

/// A cargo command in this workspace.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(root());
    command
}

/// Builds `holmd` and `holm` and says where they are. Cargo's progress goes to the terminal.
///
/// # Errors
/// When they do not compile.
pub fn build(profile: Profile) -> anyhow::Result<Programs> {
    let mut arguments = vec!["build", "--package", "holm-node", "--package", "holm", "--bins"];
    if profile == Profile::Release {
        arguments.push("--release");
    }
    process::show(&mut cargo(&arguments))?;
    // Done already; this only asks where things are.
    arguments.extend(["--quiet", "--message-format", "json"]);
    let messages = process::capture(&mut cargo(&arguments))?;
    let program =
        |name: &str| executable(&messages, name).with_context(|| format!("cargo built no `{name}`"));
    Ok(Programs { holm: program("holm")?, holmd: program("holmd")? })
}

#[derive(Deserialize)]
struct Artifact {
    target: Target,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    artifacts.filter(|artifact| artifact.target.name == name).find_map(|artifact| artifact.executable)
}
