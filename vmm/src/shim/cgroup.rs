//! A cgroup of its own for each shim and its VMM, outside the daemon's, so that stopping, restarting or
//! limiting the service never touches a guest. Where cgroup v2 is missing or not ours to change, the shim
//! stays in the daemon's group and says so.
//!
//! The shim is forked straight into its group. Moving a process later makes the kernel wait for a grace
//! period, which cost 13 to 18 ms of each start.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::setup::note;

/// Group of all guests on the host, below the root of cgroup v2.
const GUESTS: &str = "holm-guests";
/// An empty group older than this belongs to nobody.
const ABANDONED_AGE: Duration = Duration::from_secs(60);
/// A race lost this often in a row is none.
const MAKE_TRIES: u32 = 10;
/// `linux/sched.h`; the constant of the `libc` crate is cut off at 32 bits.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// How long a group that is still busy is waited for.
const REMOVE_TRIES: u32 = 30;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);

/// The group of one VM, just made.
pub struct Group {
    path: PathBuf,
    dir: File,
}

/// Which process a fork has returned in.
pub enum Fork {
    Parent,
    /// With the group the child is in, or why it is in none of its own.
    Child(Result<PathBuf, String>),
}

impl Group {
    /// Makes a group for `vm`.
    pub fn make(vm: &str) -> Result<Self, String> {
        let root = root().ok_or("no cgroup v2 is mounted")?;
        let path = root.join(GUESTS).join(vm);
        let make = || std::fs::create_dir_all(&path).and_then(|()| File::open(&path));
        // The last guest of a moment ago may be removing the parent.
        let raced =
            |made: &io::Result<File>| made.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
        let made = (0..MAKE_TRIES).map(|_| make()).find(|made| !raced(made)).unwrap_or_else(make);
        let dir = made.map_err(|e| format!("{} cannot be made: {e}", path.display()))?;
        Ok(Self { path, dir })
    }
}

/// Forks, the child into `group` where there is one. The process must have one thread.
pub fn fork_into(group: Result<Group, String>) -> io::Result<Fork> {
    let why_none = match group {
        Ok(group) => match clone_into(&group.dir) {
            Ok(0) => return Ok(Fork::Child(Ok(group.path))),
            Ok(_) => return Ok(Fork::Parent),
            Err(e) => {
                remove(&group.path);
                format!("cannot fork into {}: {e}", group.path.display())
            }
        },
        Err(why) => why,
    };
    // SAFETY: this process has one thread, so the child may do anything.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { .. } => Ok(Fork::Parent),
        nix::unistd::ForkResult::Child => Ok(Fork::Child(Err(why_none))),
    }
}

/// What the C library's fork does in a process of one thread, but into the cgroup behind `dir`.
fn clone_into(dir: &File) -> io::Result<libc::pid_t> {
    // The word where the C library keeps the thread's id, which the child has to get its own of.
    let mut tid_address: usize = 0;
    // SAFETY: the kernel writes one address to where it is told.
    if unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut tid_address) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a structure of integers.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID) as u64 | CLONE_INTO_CGROUP;
    args.exit_signal = libc::SIGCHLD as u64;
    args.child_tid = tid_address as u64;
    args.cgroup = dir.as_raw_fd() as u64;
    // SAFETY: without a stack of its own and without CLONE_VM this is a fork: the child has a copy of this
    // memory and goes on here. The address is the one the C library registered itself.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid as libc::pid_t) }
}

/// Leaves the group and removes it, and those that shims left which were killed.
pub fn leave(group: &Path) {
    if let Some(root) = root()
        && let Err(e) = std::fs::write(root.join("cgroup.procs"), std::process::id().to_string())
    {
        note(&format!("cannot leave {}: {e}", group.display()));
    }
    for sibling in group.parent().and_then(|parent| std::fs::read_dir(parent).ok()).into_iter().flatten() {
        let Ok(sibling) = sibling else { continue };
        let modified = sibling.metadata().and_then(|meta| meta.modified());
        // A young one may be waiting for its shim to be forked into it; one with processes stays anyhow.
        if modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED_AGE)) {
            let _ = std::fs::remove_dir(sibling.path());
        }
    }
    remove(group);
}

/// Removes the group of a VM whose processes are gone, and the group of all guests with the last of them.
pub fn remove(group: &Path) {
    for _ in 0..REMOVE_TRIES {
        match std::fs::remove_dir(group) {
            // Processes that have just ended are counted a moment longer.
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(REMOVE_PAUSE),
            _ => break,
        }
    }
    if let Some(parent) = group.parent().filter(|p| p.ends_with(GUESTS)) {
        // Fails while another guest has its group there.
        let _ = std::fs::remove_dir(parent);
    }
}

/// The same, for a VM whose shim may have died before it could write down its group.
pub fn remove_of(vm: &str) {
    if let Some(root) = root() {
        remove(&root.join(GUESTS).join(vm));
    }
}

/// Where cgroup v2 is mounted, alone or beside v1.
fn root() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        file_system.starts_with("cgroup2 ").then(|| mount.split(' ').nth(4).map(PathBuf::from))?
    })
}
