//! Lifetimes of VMMs as the operating system tells them: every process that runs `cloud-hypervisor` for this
//! cluster, whose VM and node are read from the files it holds open. The daemon is never asked.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::process::Process;
use super::real::VMM;
use crate::history::Journal;

/// A VMM that lives shorter may be missed; two that live at once are not.
const PERIOD: Duration = Duration::from_millis(25);

/// One process of one VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    pub vm: Uuid,
    pub node: String,
    pub pid: i32,
    /// Tells it from a later process with the same pid.
    pub start_ticks: u64,
    /// The epoch under which its shim says that it started this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// When it was first and last seen.
    pub from_ns: u64,
    pub until_ns: u64,
}

/// Watches in the background until dropped or taken.
#[derive(Debug)]
pub struct Witness {
    seen: Arc<Mutex<BTreeMap<(i32, u64), Lifetime>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    /// Watches the VMMs of the cluster in `folder`.
    pub fn start(folder: &Path, journal: Arc<Journal>) -> Self {
        let (seen, stop) = (Arc::new(Mutex::default()), Arc::new(AtomicBool::new(false)));
        let (to, until, folder) = (Arc::clone(&seen), Arc::clone(&stop), folder.to_owned());
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                look(&folder, &journal, &to);
                std::thread::sleep(PERIOD);
            }
            // What lives at the end was seen after the end began.
            look(&folder, &journal, &to);
        });
        Self { seen, stop, thread: Some(thread) }
    }

    /// VMs that had a process at the latest look, with its node.
    pub fn alive(&self) -> Vec<(Uuid, String)> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = seen.values().map(|lifetime| lifetime.until_ns).max();
        let alive = seen.values().filter(|lifetime| Some(lifetime.until_ns) == latest);
        alive.map(|lifetime| (lifetime.vm, lifetime.node.clone())).collect()
    }

    /// What was seen; the processes that were there at the last look have the greatest `until_ns`.
    pub fn finish(mut self) -> Vec<Lifetime> {
        self.end();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.end();
    }
}

impl super::Cluster {
    /// The VMMs that run on a node, each with its VM.
    pub fn vmms_of(&self, at: usize) -> Vec<(Uuid, Process)> {
        let name = &self.daemons[at].name;
        let found = self.vmms().into_iter().filter_map(|vmm| {
            let (node, vm) = identity(vmm.pid, self.scratch.path())?;
            (node == *name).then_some((vm, vmm))
        });
        found.collect()
    }
}

fn look(folder: &Path, journal: &Journal, seen: &Mutex<BTreeMap<(i32, u64), Lifetime>>) {
    // One moment for the whole look, taken before it: two that were alive in one look have it in common.
    let now = journal.now_ns();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        if exe.file_name().is_none_or(|name| name != VMM) {
            continue;
        }
        let Some(process) = Process::find(pid) else { continue };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (pid, process.start_ticks);
        if let Some(lifetime) = seen.get_mut(&key) {
            lifetime.until_ns = now;
            // It is written just after the process began.
            lifetime.epoch = lifetime.epoch.or_else(|| epoch(folder, &lifetime.node, lifetime.vm, pid));
        } else if let Some((node, vm)) = identity(pid, folder) {
            let (start_ticks, epoch) = (process.start_ticks, epoch(folder, &node, vm, pid));
            seen.insert(key, Lifetime { vm, node, pid, start_ticks, epoch, from_ns: now, until_ns: now });
        }
    }
}

/// What the shim's own record says, if it is about this process.
fn epoch(folder: &Path, node: &str, vm: Uuid, pid: i32) -> Option<u64> {
    let file = folder.join(node).join("data/vms").join(vm.to_string()).join("shim.json");
    let record: serde_json::Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let is_its_own = record["vmm"]["pid"].as_i64() == Some(i64::from(pid));
    record["epoch"].as_u64().filter(|_| is_its_own)
}

/// The node and the VM whose directory the process has a file of.
fn identity(pid: i32, folder: &Path) -> Option<(String, Uuid)> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).find_map(|file| named(&file, folder))
}

fn named(file: &Path, folder: &Path) -> Option<(String, Uuid)> {
    let below: PathBuf = file.strip_prefix(folder).ok()?.to_owned();
    let mut parts = below.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let node = parts.next()?;
    parts.find_map(|part| Uuid::parse_str(&part).ok()).map(|vm| (node, vm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_names_node_and_vm() {
        let vm = Uuid::from_u128(7);
        let file = format!("/tmp/holm-a/n2/data/vms/{vm}/lock");
        assert_eq!(named(Path::new(&file), Path::new("/tmp/holm-a")), Some(("n2".into(), vm)));
        assert_eq!(named(Path::new(&file), Path::new("/tmp/holm-b")), None);
        assert_eq!(named(Path::new("/tmp/holm-a/n2/log"), Path::new("/tmp/holm-a")), None);
    }
}
