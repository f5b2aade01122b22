//! Makes sled's own order of writes durable.
//!
//! sled reuses a part of its file once what lay there was moved and the move is "stable": written with
//! `sync_file_range`. That call persists neither new extents of the file nor the disk's cache. So between two of our
//! fsyncs a loss of power could keep the overwriting and lose the move, and with it what had long been acknowledged.
//! sled cannot be told otherwise. Therefore this process has a `sync_file_range` of its own, which the linker takes
//! before the C library's: it syncs the data. Nothing else here calls it. Costs about 80 µs of a lone write of 300 µs.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc::{self, c_int, c_uint, off64_t};

use crate::faults;

static CALLED: AtomicBool = AtomicBool::new(false);

/// Like the system call, but durable.
///
/// # Safety
/// As for the system call: any argument is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_file_range(
    fd: c_int,
    offset: off64_t,
    length: off64_t,
    flags: c_uint,
) -> c_int {
    CALLED.store(true, Ordering::Relaxed);
    if faults::skips_sync() {
        // SAFETY: the call takes plain numbers and reports what is wrong with them.
        let result = unsafe { libc::syscall(libc::SYS_sync_file_range, fd, offset, length, flags) };
        return if result < 0 { -1 } else { 0 };
    }
    // SAFETY: the call takes a plain number and reports what is wrong with it.
    unsafe { libc::fdatasync(fd) }
}

/// After sled wrote something: whether the linker did what the store relies on.
pub(super) fn check() -> io::Result<()> {
    if CALLED.load(Ordering::Relaxed) {
        return Ok(());
    }
    Err(io::Error::other(
        "this program was linked with another `sync_file_range`, so its store is not durable",
    ))
}
