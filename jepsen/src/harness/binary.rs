//! Where `holmd` is. Under `cargo test --workspace` it lies beside the test's own program and is current;
//! with other invocations it may be missing or old, which cargo's dep-info or the sources tell, and is then built.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

/// Uses the program at this path instead, whatever its age.
pub const ENV: &str = "HOLM_JEPSEN_HOLMD";
/// The same for the program that has bugs on demand.
pub const ENV_PLANTED: &str = "HOLM_JEPSEN_HOLMD_PLANTED";

/// Path of a `holmd` that is as new as its sources.
///
/// # Errors
/// When it cannot be built.
pub fn holmd() -> Result<PathBuf> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| given_or_built(&HOLMD)).clone().map_err(anyhow::Error::msg)
}

/// Path of the program that has bugs on demand, as new as its sources.
///
/// # Errors
/// When it cannot be built.
pub fn holmd_planted() -> Result<PathBuf> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| given_or_built(&PLANTED)).clone().map_err(anyhow::Error::msg)
}

fn given_or_built(program: &Program) -> Result<PathBuf, String> {
    match std::env::var_os(program.env) {
        Some(path) => Ok(PathBuf::from(path)),
        None => find(program).map_err(|error| format!("{error:#}")),
    }
}

/// A program of the daemon's crate, and the features that it needs.
struct Program {
    name: &'static str,
    features: &'static [&'static str],
    env: &'static str,
}

const HOLMD: Program = Program { name: "holmd", features: &[], env: ENV };
const PLANTED: Program = Program { name: "holmd-planted", features: &["planted"], env: ENV_PLANTED };

fn find(program: &Program) -> Result<PathBuf> {
    let exe = std::env::current_exe().context("cannot tell the path of this program")?;
    let folder = exe.parent().context("a program lies in a folder")?;
    let profile = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    let path = profile.join(program.name);
    if !is_current(&path) {
        build(program, profile)?;
    }
    if !path.is_file() {
        bail!("cargo did not build {}", path.display());
    }
    Ok(path)
}

/// Whether the program is there, was built from this workspace (checkouts may share a target folder), and
/// no source of it is newer.
fn is_current(program: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    let Some(built) = modified(program) else { return false };
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/"));
    let sources = match std::fs::read_to_string(program.with_extension("d")) {
        Ok(notes) => sources(&notes),
        // `cargo test` builds the program and notes nothing; whatever there is may be a source of it then.
        Err(_) => all_sources(workspace),
    };
    sources.iter().any(|source| source.starts_with(workspace.join("node")))
        && sources.iter().all(|source| modified(source).is_some_and(|at: SystemTime| at <= built))
}

/// The prerequisites of a Makefile rule; spaces in names are escaped.
fn sources(notes: &str) -> Vec<PathBuf> {
    let Some((_, list)) = notes.split_once(": ") else { return Vec::new() };
    let list = list.trim().replace("\\ ", "\0");
    list.split_whitespace().map(|name| PathBuf::from(name.replace('\0', " "))).collect()
}

/// Every manifest and every file of a `src` folder below, wherever the workspace itself lies.
fn all_sources(workspace: &Path) -> Vec<PathBuf> {
    sources_below(workspace, false)
}

fn sources_below(folder: &Path, is_source: bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                found.extend(sources_below(&path, is_source || name == "src"));
            }
        } else if is_source || name == "Cargo.toml" || name == "Cargo.lock" {
            found.push(path);
        }
    }
    found
}

fn build(program: &Program, profile: &Path) -> Result<()> {
    let name =
        profile.file_name().and_then(|name| name.to_str()).context("the profile's folder has a name")?;
    let target = profile.parent().context("the profile's folder lies in the target folder")?;
    let name = if name == "debug" { "dev" } else { name };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    eprintln!("holm-jepsen: building {}", program.name);
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--package", "holm-node", "--bin", program.name, "--profile", name])
        .args(program.features.iter().flat_map(|feature| ["--features", feature]))
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("cargo could not build {} ({status})", program.name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dep_info_lists_sources_with_spaces_in_their_names() {
        let found = sources("/t/debug/holmd: /s/main.rs /s/a\\ b.rs /s/lib.rs\n");
        assert_eq!(found, ["/s/main.rs", "/s/a b.rs", "/s/lib.rs"].map(PathBuf::from));
    }

    #[test]
    fn without_dep_info_all_sources_count_and_nothing_that_was_built_or_is_a_test() {
        let folder = tempfile::tempdir().unwrap();
        // As people keep their checkouts.
        let workspace = &folder.path().join("src/holm");
        let make = |path: &str| {
            let path = workspace.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        let sources = ["Cargo.lock", "Cargo.toml", "node/Cargo.toml", "node/src/a/b.rs", "node/src/main.rs"];
        sources.into_iter().chain(["node/tests/c.rs", "target/src/d.rs", ".git/src/e"]).for_each(make);
        let mut found = all_sources(workspace);
        found.sort();
        assert_eq!(found, sources.map(|path| workspace.join(path)));
    }
}
