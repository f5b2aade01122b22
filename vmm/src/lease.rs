//! The node's lease as daemon, shims and watchdog share it: one small file on tmpfs, mapped by each, so that
//! reading it never waits for anything. The daemon writes, everybody else only reads (FENCING.md, rules 15
//! and 16).
//!
//! The file is made once per boot and never replaced in that boot. Its layout stays as it is for ever, since
//! shims outlive upgrades; integers are little-endian:
//!
//! ```text
//!  0  8 bytes  "HOLMLEAS"
//!  8  u32      layout version, 1; a later one only adds fields
//! 12  u32      0
//! 16  16 bytes boot id of the host: a file of another boot counts for nothing
//! 32  u64      lease id; 0 before the first grant
//! 40  u64      deadline, nanoseconds of CLOCK_BOOTTIME; 0 once the lease was ended
//! 48  16 bytes 0
//! ```
//!
//! The writer stores the id, then the deadline; a reader loads the deadline, then the id. So whoever sees
//! the deadline of a new lease sees its id too, and never takes it for an older lease's.

mod record;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use holm_model::BootId;
use holm_model::planted::{Plant, planted};
use serde::{Deserialize, Serialize};

pub use self::record::ArmedRecord;
use crate::host;
pub use crate::vm_dir::ProcessId;

const MAGIC: [u8; 8] = *b"HOLMLEAS";
const VERSION: u32 = 1;
const VERSION_AT: usize = 8;
const BOOT_ID_AT: usize = 16;
const LEASE_ID_AT: usize = 32;
const DEADLINE_AT: usize = 40;
const LEN: usize = 64;
/// What `fstype` of statfs says for file systems that live in memory.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Names one lease of a node. A lease that lapsed never comes back: the next one has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseId(pub u64);

impl std::fmt::Display for LeaseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The lease a run depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The node's lease file.
    pub file: PathBuf,
    /// The lease that is in force.
    pub id: LeaseId,
}

impl Lease {
    /// When it ends, nanoseconds of `CLOCK_BOOTTIME`.
    ///
    /// # Errors
    /// Why it does not live: the text is for the operator.
    pub fn deadline(&self) -> Result<u64, String> {
        let view = LeaseView::open(&self.file).map_err(|e| match std::error::Error::source(&e) {
            Some(source) => format!("{e}: {source}"),
            None => e.to_string(),
        })?;
        view.deadline_of(self.id)
            .filter(|deadline| *deadline > host::boottime_ns())
            .ok_or_else(|| format!("lease {} of this node has ended", self.id))
    }
}

/// Why a lease file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what} {}", path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is no lease file: stop the VMs with availability failover on this host and remove it", path.display())]
    Foreign { path: PathBuf },
    #[error("{} is of an earlier boot of this host and counts for nothing", path.display())]
    OtherBoot { path: PathBuf },
    #[error("lease {id} has lapsed: the next grant needs a new id")]
    Lapsed { id: LeaseId },
}

/// The daemon's side: the only writer.
#[derive(Debug)]
pub struct LeaseFile {
    map: Map,
    path: PathBuf,
}

impl LeaseFile {
    /// Takes the file of this boot, with the lease that is in it, or makes one without a lease. One of an
    /// earlier boot is replaced: nobody who trusted it is alive.
    pub fn open_or_create(path: &Path) -> Result<Self, Error> {
        let boot = host::boot_id().map_err(io_error("cannot read the boot id for", path))?;
        let opened = match open(path, boot, true) {
            Err(Error::OtherBoot { .. }) => {
                create(path, boot, |fresh| std::fs::rename(fresh, path))?;
                open(path, boot, true)
            }
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                // A link, unlike a rename, replaces nothing.
                create(path, boot, |fresh| std::fs::hard_link(fresh, path))?;
                open(path, boot, true)
            }
            opened => opened,
        };
        Ok(Self { map: opened?, path: path.to_owned() })
    }

    /// Lets lease `id` last until `deadline_ns` of `CLOCK_BOOTTIME`. It is not shortened by this, and one that has
    /// lapsed is not granted again: whoever was asleep meanwhile must not take it for unbroken.
    pub fn grant(&self, id: LeaseId, deadline_ns: u64) -> Result<(), Error> {
        match self.current() {
            Some((current, ends)) if current == id => {
                // A pause of this process between the look and the store does no harm: a deadline is a point
                // in time and says the truth whenever it is written.
                if ends <= host::boottime_ns() {
                    return Err(Error::Lapsed { id });
                }
                if deadline_ns > ends {
                    self.map.deadline().store(deadline_ns, Ordering::Release);
                }
            }
            _ => {
                self.map.lease_id().store(id.0, Ordering::Release);
                self.map.deadline().store(deadline_ns, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Lets lease `id`, if it is in force, last no longer than until `deadline_ns`. Shims notice within a second, and
    /// must: that is what it is shortened to at least.
    pub fn shorten(&self, id: LeaseId, deadline_ns: u64) {
        if self.current().is_some_and(|(current, ends)| current == id && ends > deadline_ns) {
            self.map.deadline().store(deadline_ns, Ordering::Release);
        }
    }

    /// Ends the lease before its deadline. Shims notice within a second.
    pub fn end(&self) {
        self.map.deadline().store(0, Ordering::Release);
    }

    /// The lease granted last and its deadline, which may be over.
    pub fn current(&self) -> Option<(LeaseId, u64)> {
        self.map.current()
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it lies on a file system in memory. On a disk it is as safe, by its boot id, but a disk that
    /// hangs can then cost the lease.
    pub fn is_in_memory(&self) -> bool {
        nix::sys::statfs::statfs(&self.path).is_ok_and(|fs| IN_MEMORY.contains(&fs.filesystem_type().0))
    }
}

/// A reader's side.
#[derive(Debug)]
pub struct LeaseView {
    map: Map,
}

impl LeaseView {
    /// Maps the file, which must be of this boot.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let boot = host::boot_id().map_err(io_error("cannot read the boot id for", path))?;
        Ok(Self { map: open(path, boot, false)? })
    }

    /// Until when lease `id` lasts, nanoseconds of `CLOCK_BOOTTIME`, which may be over; `None` when another
    /// lease is in force, or none.
    pub fn deadline_of(&self, id: LeaseId) -> Option<u64> {
        self.map.current().and_then(|(current, deadline)| (current == id).then_some(deadline))
    }
}

/// The file in memory, for as long as this lives.
#[derive(Debug)]
struct Map {
    at: *mut u8,
}

// SAFETY: the mapping stays where it is; its two words that change are accessed as atomics only.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    fn of(file: &File, writable: bool) -> io::Result<Self> {
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping where the kernel chooses, of a descriptor that is open.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), LEN, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Best effort here; a shim locks all its memory later.
        // SAFETY: the mapping was just made.
        unsafe { libc::mlock(at, LEN) };
        Ok(Self { at: at.cast() })
    }

    fn lease_id(&self) -> &AtomicU64 {
        self.word(LEASE_ID_AT)
    }

    fn deadline(&self) -> &AtomicU64 {
        self.word(DEADLINE_AT)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: aligned, within the mapping, valid for as long as `self`, never accessed otherwise. Of a
        // mapping that is read-only it is only loaded.
        unsafe { AtomicU64::from_ptr(self.at.add(at).cast()) }
    }

    fn current(&self) -> Option<(LeaseId, u64)> {
        let deadline = u64::from_le(self.deadline().load(Ordering::Acquire));
        let id = u64::from_le(self.lease_id().load(Ordering::Acquire));
        (id != 0).then_some((LeaseId(id), deadline))
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and nothing borrows from it any more.
        unsafe { libc::munmap(self.at.cast(), LEN) };
    }
}

fn open(path: &Path, boot: BootId, writable: bool) -> Result<Map, Error> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(writable)
        .open(path)
        .map_err(io_error("cannot open the lease file", path))?;
    let mut bytes = Vec::with_capacity(LEN);
    (&mut file)
        .take(LEN as u64)
        .read_to_end(&mut bytes)
        .map_err(io_error("cannot read the lease file", path))?;
    if bytes.len() < LEN || !bytes.starts_with(&MAGIC) || bytes[VERSION_AT..VERSION_AT + 4] == [0; 4] {
        return Err(Error::Foreign { path: path.to_owned() });
    }
    let of_this_boot = bytes[BOOT_ID_AT..BOOT_ID_AT + 16] == *boot.0.as_bytes();
    if !of_this_boot && !planted(Plant::LeaseOfAnyBoot) {
        return Err(Error::OtherBoot { path: path.to_owned() });
    }
    Map::of(&file, writable).map_err(io_error("cannot map the lease file", path))
}

/// Makes a whole file beside `path` and lets `place` put it there. One that is there by then is as good.
fn create(path: &Path, boot: BootId, place: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), Error> {
    let failed = || io_error("cannot make the lease file", path);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed())?;
    }
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let made = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut file| file.write_all(&empty(boot)))
        .and_then(|()| place(&fresh));
    let _ = std::fs::remove_file(&fresh);
    match made {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(failed()(e)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A file in which no lease was granted yet.
fn empty(boot: BootId) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[VERSION_AT..VERSION_AT + 4].copy_from_slice(&VERSION.to_le_bytes());
    bytes[BOOT_ID_AT..BOOT_ID_AT + 16].copy_from_slice(boot.0.as_bytes());
    bytes
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { what, path, source }
}

#[cfg(test)]
#[path = "lease/tests.rs"]
mod tests;
