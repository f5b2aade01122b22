//! The folder of one cluster, under the system's temporary folder and with a short path (Unix sockets lie
//! below it). Dropping it ends every process that works in it, removes the cgroups of its VMs, unmounts the
//! disks below it, then removes the folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::disk::Disk;
use super::leftovers;
use super::process::{self, Process};

/// Begins the name of every such folder.
pub(super) const PREFIX: &str = "holm-";

/// The folder.
#[derive(Debug)]
pub struct Scratch {
    /// None once it was told to stay.
    dir: Option<TempDir>,
    path: PathBuf,
    /// Mounted below it.
    pub disks: Vec<Disk>,
}

impl Scratch {
    /// An empty one.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir().context("no temporary folder")?;
        let path = dir.path().canonicalize()?;
        leftovers::own(&path)?;
        Ok(Self { dir: Some(dir), path, disks: Vec::new() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Processes that work here, and cgroups of VMs that have a directory here.
    pub fn leftovers(&self) -> Vec<String> {
        let processes = process::of_folder(&self.path).into_iter();
        let processes = processes.map(|p| format!("process {} ({})", p.pid, p.command));
        let groups = cgroups(&self.path).into_iter().map(|group| format!("cgroup {}", group.display()));
        processes.chain(groups).collect()
    }

    /// The folder stays when this is dropped; its processes end all the same.
    pub fn keep(&mut self) {
        if let Some(dir) = self.dir.take() {
            leftovers::disown(&self.path);
            let _ = dir.keep();
        }
    }
}

fn cgroups(folder: &Path) -> Vec<PathBuf> {
    let nodes = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let vms = nodes
        .flat_map(|node| std::fs::read_dir(node.path().join("data/vms")).into_iter().flatten().flatten());
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|root| Path::new(root).join("holm-guests"));
    vms.flat_map(|vm| roots.clone().map(|root| root.join(vm.file_name())))
        .filter(|group| group.is_dir())
        .collect()
}

/// Ends every process that works in `folder` and removes the cgroups of its VMs.
pub(super) fn end_all(folder: &Path) {
    // A shim that dies takes its VMM along, and a daemon may be about to start another: look again.
    for _ in 0..10 {
        let found = process::of_folder(folder);
        if found.is_empty() {
            break;
        }
        for process in found {
            if let Err(error) = Process::kill(&process) {
                eprintln!("holm-jepsen: {error:#}");
            }
        }
    }
    for group in cgroups(folder) {
        let _ = std::fs::remove_dir(&group);
        // Goes only when it was the last.
        let _ = group.parent().map(std::fs::remove_dir);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        end_all(&self.path);
        // Whatever runs on them has ended.
        self.disks.clear();
        if let Some(dir) = self.dir.take()
            && let Err(error) = dir.close()
        {
            eprintln!("holm-jepsen: cannot remove {}: {error}", self.path.display());
        }
    }
}
