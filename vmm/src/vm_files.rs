//! What both drivers do with a VM's directory: list, release, delete, forget, read the log. A released
//! mark is on disk before anything says so, and nothing is removed under a VMM that lives.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use holm_model::{Epoch, VmId};

use crate::hypervisor::Error;
use crate::shim::previous_log;
use crate::vm_dir::{Lock, VmDir};
use crate::{disk, durable};

/// An [`Error::Io`] about `path`.
pub fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { what, path, source }
}

/// Every VM with a directory below `root`.
pub fn list(root: &Path) -> Result<Vec<VmId>, Error> {
    let entries = std::fs::read_dir(root).map_err(io_error("cannot list", root))?;
    let mut vms: Vec<VmId> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    vms.sort();
    Ok(vms)
}

/// Takes the lock of a VM that does not run.
pub fn lock_stopped(dir: &VmDir) -> Result<Lock, Error> {
    match dir.lock() {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(Error::Refused("the VM still runs: stop it first".to_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::NotHere),
        Err(e) => Err(io_error("cannot lock", dir.path())(e)),
    }
}

/// Marks `epoch` released. An epoch that never came here is marked too, so that it never starts here.
pub fn release(dir: &VmDir, epoch: Epoch) -> Result<(), Error> {
    let read = |dir: &VmDir| dir.epoch().map_err(io_error("cannot read the epoch of", dir.path()));
    let _lock = match lock_stopped(dir) {
        Ok(lock) => Some(lock),
        Err(Error::NotHere) => None,
        Err(e) => return Err(e),
    };
    match read(dir)? {
        Some(mark) if mark.epoch > epoch => {
            Err(Error::Refused(format!("this host already holds the later epoch {} of the VM", mark.epoch)))
        }
        Some(mark) if mark.epoch == epoch && mark.released => Ok(()),
        Some(_) | None => {
            dir.set_epoch(epoch, true).map_err(io_error("cannot write the released mark in", dir.path()))
        }
    }
}

/// Deletes disks and kernel of a released VM.
pub fn delete_disks(dir: &VmDir) -> Result<(), Error> {
    let _lock = lock_stopped(dir)?;
    require_released(dir)?;
    remove_boot_files(dir)
}

/// Removes what the epoch boots from.
pub fn remove_boot_files(dir: &VmDir) -> Result<(), Error> {
    disk::remove_unfinished(&dir.root_disk()).map_err(io_error("cannot clear", dir.path()))?;
    for path in [dir.root_disk(), dir.kernel()] {
        match std::fs::remove_file(&path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(io_error("cannot delete", &path)(e)),
        }
    }
    Ok(())
}

/// Removes the directory of a released VM, after `leftovers` of its processes were removed.
pub fn forget(dir: &VmDir, leftovers: impl FnOnce()) -> Result<(), Error> {
    let _lock = match lock_stopped(dir) {
        Ok(lock) => lock,
        Err(Error::NotHere) => return Ok(()),
        Err(e) => return Err(e),
    };
    // A directory without a mark never held a VM: its making was cut short.
    if dir.epoch().map_err(io_error("cannot read the epoch of", dir.path()))?.is_some() {
        require_released(dir)?;
    }
    leftovers();
    // The mark goes last, so that an interrupted removal is still a released VM.
    remove_boot_files(dir)?;
    std::fs::remove_dir_all(dir.path()).map_err(io_error("cannot remove", dir.path()))?;
    durable::sync_parent(dir.path()).map_err(io_error("cannot make the removal durable of", dir.path()))
}

fn require_released(dir: &VmDir) -> Result<(), Error> {
    match dir.epoch().map_err(io_error("cannot read the epoch of", dir.path()))? {
        Some(mark) if mark.released => Ok(()),
        Some(mark) => {
            Err(Error::Refused(format!("epoch {} is not released: its disks may be needed", mark.epoch)))
        }
        None => Err(Error::NotHere),
    }
}

/// The last `max_bytes` of the console log, the rotated part included.
pub fn log(dir: &VmDir, max_bytes: u64) -> Result<Vec<u8>, Error> {
    if !dir.path().is_dir() {
        return Err(Error::NotHere);
    }
    let current = dir.console_log();
    let mut end = tail(&current, max_bytes).map_err(io_error("cannot read", &current))?;
    let missing = max_bytes.saturating_sub(end.len() as u64);
    if missing > 0 {
        let older = previous_log(&current);
        let mut start = tail(&older, missing).map_err(io_error("cannot read", &older))?;
        start.append(&mut end);
        end = start;
    }
    Ok(end)
}

fn tail(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let len = file.metadata()?.len();
    let from = len.saturating_sub(max_bytes);
    let mut bytes = vec![0; (len - from) as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], from + filled as u64)? {
            0 => break,
            n => filled += n,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
