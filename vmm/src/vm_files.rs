//! What both drivers do with a VM's directory: list, release, delete, forget, read the log. A released
//! mark is on disk before anything says so, and nothing is removed under a VMM that lives.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use holm_model::{Epoch, VmId};

use crate::hypervisor::Error;
use crate::shim::previous_log;
use crate::vm_dir::{EpochRecord, Lock, VmDir};
use crate::{disk, durable};

/// An [`Error::Io`] about `path`.
pub fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { what, path, source }
}

/// Every VM with a directory below `root` that holds one, or that something still runs in.
pub fn list(root: &Path) -> Result<Vec<VmId>, Error> {
    let mut vms = directories(root)?;
    vms.retain(|vm| !is_remainder(&VmDir::new(root, *vm)));
    vms.sort();
    Ok(vms)
}

/// Removes the directories below `root` that hold no VM; one that cannot be removed stays, and is not listed.
pub fn remove_remainders(root: &Path) {
    for vm in directories(root).unwrap_or_default() {
        let dir = VmDir::new(root, vm);
        // Looked at again under the lock: a start may have begun in between.
        if is_remainder(&dir)
            && let Ok(_lock) = lock_stopped(&dir)
            && matches!(dir.epoch(), Ok(None))
        {
            let _ = std::fs::remove_dir_all(dir.path());
        }
    }
}

fn directories(root: &Path) -> Result<Vec<VmId>, Error> {
    let entries = std::fs::read_dir(root).map_err(io_error("cannot list", root))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// A directory whose making or removal was cut short: it has no mark, and no process. What cannot be told
/// is no remainder.
fn is_remainder(dir: &VmDir) -> bool {
    matches!(dir.epoch(), Ok(None)) && matches!(dir.is_locked(), Ok(false))
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

/// Writes down whether `epoch` may run under a lease only. Changes nothing about what runs.
pub fn bind(dir: &VmDir, epoch: Epoch, bound: bool) -> Result<(), Error> {
    let mark = dir.epoch().map_err(io_error("cannot read the epoch of", dir.path()))?;
    match mark {
        None => Err(Error::NotHere),
        Some(mark) if mark.epoch != epoch => {
            Err(Error::Refused(format!("this host holds epoch {} of the VM", mark.epoch)))
        }
        Some(mark) if mark.bound == bound => Ok(()),
        Some(mark) => {
            let failed = io_error("cannot write the mark in", dir.path());
            dir.set_mark(&EpochRecord { bound, ..mark }).map_err(failed)
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
    let mark = dir.epoch_mark();
    remove_all_but(dir.path(), &[&mark, &dir.lock_file()]).map_err(io_error("cannot clear", dir.path()))?;
    durable::sync_parent(&mark).map_err(io_error("cannot make the removal durable in", dir.path()))?;
    std::fs::remove_dir_all(dir.path()).map_err(io_error("cannot remove", dir.path()))?;
    durable::sync_parent(dir.path()).map_err(io_error("cannot make the removal durable of", dir.path()))
}

fn remove_all_but(dir: &Path, kept: &[&Path]) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        match entry.path() {
            path if kept.contains(&path.as_path()) => {}
            path if entry.file_type()?.is_dir() => std::fs::remove_dir_all(path)?,
            path => std::fs::remove_file(path)?,
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use holm_model::Revision;

    use super::*;

    #[test]
    fn a_removal_that_is_cut_short_still_is_a_released_vm() {
        let root = tempfile::tempdir().expect("temporary directory");
        let vm = VmId(uuid::Uuid::from_u128(1));
        let dir = VmDir::new(root.path(), vm);
        dir.set_epoch(Epoch(Revision(7)), true).expect("mark");
        // `remove_dir_all` stops at what cannot be removed, wherever it has come by then.
        let stuck = dir.file("stuck");
        let mounted = std::fs::create_dir(&stuck).and_then(|()| {
            nix::mount::mount(Some("none"), &stuck, Some("tmpfs"), nix::mount::MsFlags::empty(), None::<&str>)
                .map_err(io::Error::from)
        });
        if let Err(e) = mounted {
            // Past libtest's capture, which hides what passing tests print.
            drop(std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("SKIPPED: a removal that is cut short: cannot mount a tmpfs: {e}\n"),
            ));
            return;
        }
        let cut_short = forget(&dir, || {});
        nix::mount::umount2(&stuck, nix::mount::MntFlags::MNT_DETACH).expect("unmounted");
        assert!(cut_short.is_err());
        assert_eq!(dir.epoch().expect("mark").map(|mark| mark.released), Some(true));
        assert_eq!(list(root.path()).expect("list"), [vm]);
        forget(&dir, || {}).expect("forgotten");
        assert!(!dir.path().exists());
    }

    #[test]
    fn the_need_of_a_lease_belongs_to_one_epoch_and_outlives_its_release() {
        let root = tempfile::tempdir().expect("temporary directory");
        let dir = VmDir::at(root.path().join("vm"));
        let epoch = |n| Epoch(Revision(n));
        let cluster = Some(holm_model::ClusterId(uuid::Uuid::from_u128(5)));
        let mark = || dir.epoch().expect("readable").expect("marked");
        assert!(matches!(bind(&dir, epoch(7), true), Err(Error::NotHere)));
        dir.begin_epoch(epoch(7), cluster).expect("begun");
        // Whatever runs: it is written down first, then the run is bound.
        let runs = dir.lock().expect("lock").expect("free");
        bind(&dir, epoch(7), true).expect("bound");
        assert!(matches!(bind(&dir, epoch(8), false), Err(Error::Refused(_))), "another epoch");
        assert!(mark().bound);
        drop(runs);
        release(&dir, epoch(7)).expect("released");
        assert_eq!((mark().released, mark().bound, mark().cluster), (true, true, cluster));
        dir.begin_epoch(epoch(8), cluster).expect("begun");
        assert!(!mark().bound && !mark().released);
    }

    #[test]
    fn a_directory_without_a_mark_is_no_vm_and_goes_unless_something_runs_in_it() {
        let root = tempfile::tempdir().expect("temporary directory");
        let dirs = [1, 2].map(|n| VmDir::new(root.path(), VmId(uuid::Uuid::from_u128(n))));
        for dir in &dirs {
            std::fs::create_dir(dir.path()).expect("directory");
            std::fs::write(dir.console_log(), "boot").expect("log");
        }
        let _runs = dirs[1].lock().expect("lock").expect("free");
        assert_eq!(list(root.path()).expect("list"), [VmId(uuid::Uuid::from_u128(2))]);
        remove_remainders(root.path());
        assert_eq!(dirs.map(|dir| dir.path().exists()), [false, true]);
    }
}
