//! The directory of one VM: which files it has and what is in them. The formats stay readable for ever,
//! because shims outlive upgrades of the daemon.
//!
//! ```text
//! <vm_dir>/<vm-id>/
//!   epoch.json    epoch and released mark, durable            written by the daemon
//!   spec.json     what the next run is made of                written by the daemon
//!   kernel        hard link to the image, so that a guest can reset after the image is gone
//!   root.img      root disk of this epoch
//!   root.tmp-*    one that is being made; whoever makes the next one, or removes the VM, removes it
//!   shim.json     the latest run: processes, sockets, boot    written by the shim
//!   exit.json     how that run ended, durable                 written by the shim
//!   reserve       space set aside for exit.json while a run goes on
//!   lock          held by shim and VMM for as long as either lives
//!   console.log   what the guest printed (+ console.log.1)
//!   vmm.log       stderr of the VMM;   shim.log  of the shim
//!   simulated.json  the latest run of the simulated driver
//! ```

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use holm_model::{BootId, ClusterId, Epoch, VmId};
use nix::fcntl::{FcntlArg, fcntl};
use serde::{Deserialize, Serialize};

use crate::durable::{self, Sync};
use crate::hypervisor::ExitCause;
use crate::lease::Lease;

/// Version written into every file here. Readers accept every version up to theirs.
pub const FORMAT: u32 = 1;

/// Room for the record of an exit and its directory entry.
const RESERVE_BYTES: usize = 16 * 1024;

/// Which epoch the directory belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochRecord {
    pub version: u32,
    pub epoch: Epoch,
    /// Never started again here.
    pub released: bool,
    /// The cluster that placed it; one that is not named is the node's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// It may run under a lease only, whatever an older replica says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
}

/// The latest run and who runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimRecord {
    pub version: u32,
    pub epoch: Epoch,
    pub run: u64,
    pub boot_id: BootId,
    pub shim: ProcessId,
    /// None until it was forked.
    pub vmm: Option<ProcessId>,
    pub api_socket: PathBuf,
    pub control_socket: PathBuf,
    pub console_socket: PathBuf,
    /// The shim's own cgroup, where it could make one.
    pub cgroup: Option<PathBuf>,
    /// This shim can be told to end its VM with a lease.
    #[serde(default)]
    pub can_arm: bool,
}

/// A process, named uniquely within one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    pub start_ticks: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    pub version: u32,
    pub epoch: Epoch,
    pub run: u64,
    pub boot_id: BootId,
    pub cause: ExitCause,
    /// Milliseconds since 1970, for people.
    pub ended_at_ms: u64,
}

/// `simulated.json`: the latest run of the simulated driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedRecord {
    pub version: u32,
    pub epoch: Epoch,
    pub run: u64,
    pub boot_id: BootId,
    /// None while it goes on.
    pub ended: Option<ExitCause>,
    /// The lease it depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// As [`crate::hypervisor::StartSpec::start_order`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start_order: i32,
}

fn is_zero(n: &i32) -> bool {
    *n == 0
}

/// The directory of one VM; it need not exist.
#[derive(Clone, Debug)]
pub struct VmDir {
    path: PathBuf,
}

impl VmDir {
    /// The directory of `vm` below `root`.
    pub fn new(root: &Path, vm: VmId) -> Self {
        Self { path: root.join(vm.to_string()) }
    }

    /// The directory at `path`.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Where the kernel is linked.
    pub fn kernel(&self) -> PathBuf {
        self.file("kernel")
    }

    /// The root disk.
    pub fn root_disk(&self) -> PathBuf {
        self.file("root.img")
    }

    /// The console log.
    pub fn console_log(&self) -> PathBuf {
        self.file("console.log")
    }

    /// What [`lock`](Self::lock) locks.
    pub fn lock_file(&self) -> PathBuf {
        self.file("lock")
    }

    /// The file of the epoch mark.
    pub fn epoch_mark(&self) -> PathBuf {
        self.file("epoch.json")
    }

    /// The epoch mark; `None` where there is no directory or no mark.
    pub fn epoch(&self) -> io::Result<Option<EpochRecord>> {
        durable::read_json(&self.epoch_mark())
    }

    /// Writes the epoch mark durably, making the directory where it is missing. What else is known of this
    /// epoch stays.
    pub fn set_epoch(&self, epoch: Epoch, released: bool) -> io::Result<()> {
        let known = self.epoch()?.filter(|mark| mark.epoch == epoch);
        let (cluster, bound) = known.map_or((None, false), |mark| (mark.cluster, mark.bound));
        self.set_mark(&EpochRecord { version: FORMAT, epoch, released, cluster, bound })
    }

    /// Begins an epoch that `cluster` placed here.
    pub fn begin_epoch(&self, epoch: Epoch, cluster: Option<ClusterId>) -> io::Result<()> {
        self.set_mark(&EpochRecord { version: FORMAT, epoch, released: false, cluster, bound: false })
    }

    /// Replaces the epoch mark durably, making the directory where it is missing.
    pub fn set_mark(&self, record: &EpochRecord) -> io::Result<()> {
        std::fs::create_dir_all(&self.path)?;
        durable::sync_parent(&self.path)?;
        durable::write_json(&self.epoch_mark(), record, Sync::Yes)
    }

    /// The latest run.
    pub fn shim(&self) -> io::Result<Option<ShimRecord>> {
        durable::read_json(&self.file("shim.json"))
    }

    /// Writes the latest run.
    pub fn set_shim(&self, record: &ShimRecord, sync: Sync) -> io::Result<()> {
        durable::write_json(&self.file("shim.json"), record, sync)
    }

    /// How the latest run that ended did so.
    pub fn exit(&self) -> io::Result<Option<ExitRecord>> {
        durable::read_json(&self.file("exit.json"))
    }

    /// Writes down durably how a run ended.
    pub fn set_exit(&self, record: &ExitRecord) -> io::Result<()> {
        durable::write_json(&self.file("exit.json"), record, Sync::Yes)
    }

    /// Sets disk space aside for the record of the exit, so that a full disk does not lose it. Best effort:
    /// on a disk that is full already there is nothing to set aside.
    pub fn reserve_exit(&self) {
        let _ = std::fs::write(self.file("reserve"), [0; RESERVE_BYTES]);
    }

    /// Gives that space back.
    pub fn free_reserve(&self) {
        let _ = std::fs::remove_file(self.file("reserve"));
    }

    /// Forgets how an earlier run ended.
    pub fn clear_exit(&self) -> io::Result<()> {
        match std::fs::remove_file(self.file("exit.json")) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The latest simulated run.
    pub fn simulated(&self) -> io::Result<Option<SimulatedRecord>> {
        durable::read_json(&self.file("simulated.json"))
    }

    /// Writes the latest simulated run durably.
    pub fn set_simulated(&self, record: &SimulatedRecord) -> io::Result<()> {
        durable::write_json(&self.file("simulated.json"), record, Sync::Yes)
    }

    /// Takes the lock that a shim and its VMM hold together; `None` when somebody holds it.
    ///
    /// It belongs to the open file, which the VMM inherits: it is free only when both are gone.
    pub fn lock(&self) -> io::Result<Option<Lock>> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.lock_file())?;
        match fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&whole_file())) {
            Ok(_) => Ok(Some(Lock { file: Some(file) })),
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Whether a shim or its VMM lives.
    pub fn is_locked(&self) -> io::Result<bool> {
        let file = match OpenOptions::new().read(true).write(true).open(self.lock_file()) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        let mut probe = whole_file();
        fcntl(file.as_fd(), FcntlArg::F_OFD_GETLK(&mut probe))?;
        Ok(i32::from(probe.l_type) != libc::F_UNLCK)
    }
}

/// Proof that nobody runs the VM of a directory, for as long as this process needs it. Dropping it frees
/// the lock even if a process that is being spawned right now has a copy of the descriptor.
pub struct Lock {
    file: Option<File>,
}

impl Lock {
    /// Makes it last until its last copy is gone, in whatever process.
    pub fn share(mut self) -> SharedLock {
        // Always there: only this method and drop take it, and both end the guard.
        SharedLock { file: self.file.take().expect("a lock has its file until it ends") }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let mut free = whole_file();
            free.l_type = libc::F_UNLCK as libc::c_short;
            let _ = fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&free));
        }
    }
}

/// The lock as shim and VMM hold it together: freed when both are gone.
pub struct SharedLock {
    file: File,
}

impl AsFd for SharedLock {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn whole_file() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_guard_and_a_shared_one_with_its_last_copy() {
        let root = tempfile::tempdir().expect("temporary directory");
        let dir = VmDir::at(root.path().to_owned());
        let lock = || dir.lock().expect("lock");
        assert!(!dir.is_locked().expect("probe"));
        let guard = lock().expect("free");
        let copy = guard.file.as_ref().expect("held").try_clone().expect("copy");
        assert!(dir.is_locked().expect("probe"));
        assert!(lock().is_none());
        drop(guard);
        assert!(!dir.is_locked().expect("probe"), "a copy in a process being spawned does not hold it");
        drop(copy);

        let shared = lock().expect("free").share();
        let copy = shared.file.try_clone().expect("copy");
        drop(shared);
        assert!(dir.is_locked().expect("probe"));
        drop(copy);
        assert!(!dir.is_locked().expect("probe"));
    }

    #[test]
    fn files_written_by_the_first_version_stay_readable() {
        let epoch: EpochRecord =
            serde_json::from_str(r#"{"version":1,"epoch":7,"released":true}"#).expect("epoch.json");
        assert_eq!((epoch.epoch, epoch.cluster, epoch.bound), (Epoch(holm_model::Revision(7)), None, false));
        let exit: ExitRecord = serde_json::from_str(
            r#"{"version":1,"epoch":7,"run":2,"boot_id":"6f9619ff-8b86-4011-b42d-00c04fc964ff",
                "cause":{"failed":{"reason":"gone"}},"ended_at_ms":1}"#,
        )
        .expect("exit.json");
        assert_eq!(exit.cause, ExitCause::Failed { reason: "gone".into() });
        let lease_ended: ExitCause = serde_json::from_str(r#""lease-ended""#).expect("cause");
        assert_eq!(lease_ended, ExitCause::LeaseEnded);
        let shim: ShimRecord = serde_json::from_str(
            r#"{"version":1,"epoch":7,"run":2,"boot_id":"6f9619ff-8b86-4011-b42d-00c04fc964ff",
                "shim":{"pid":10,"start_ticks":99},"vmm":null,"api_socket":"/run/holm/a/api.sock",
                "control_socket":"/run/holm/a/shim.sock","console_socket":"/run/holm/a/console.sock",
                "cgroup":null}"#,
        )
        .expect("shim.json");
        assert_eq!(shim.shim, ProcessId { pid: 10, start_ticks: 99 });
        assert!(!shim.can_arm, "the first shims knew no leases");
    }
}
