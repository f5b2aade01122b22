//! A file that only takes room. When the disk is full it is given up, so that the node can be started again,
//! finish its log and purge it; it is taken again when there is plenty.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::statvfs;

use crate::simulated;

const FILE: &str = "reserve";
const BYTES: u64 = 32 << 20;
/// Less room than this is as good as none.
const SCARCE: u64 = BYTES / 4;
/// With less than this left the reserve would do more harm than good.
const PLENTY: u64 = 2 * BYTES;

/// Takes the reserve, or gives it up, as the disk has room. The caller has more urgent things than a failure here.
pub(crate) fn adjust(data_dir: &Path) {
    if simulated::is_on() {
        return;
    }
    let path = data_dir.join(FILE);
    let adjusted = room(data_dir).and_then(|room| match path.exists() {
        true if room < SCARCE => fs::remove_file(&path).inspect(|()| warn(data_dir)),
        false if room >= PLENTY => take(&path),
        _ => Ok(()),
    });
    if let Err(error) = adjusted {
        tracing::warn!(%error, path = %path.display(), "cannot keep a reserve for a full disk");
    }
}

fn warn(data_dir: &Path) {
    tracing::error!(
        data_dir = %data_dir.display(),
        "the disk is full; its last {} MiB were freed for the log. Make room",
        BYTES >> 20
    );
}

fn room(data_dir: &Path) -> io::Result<u64> {
    let disk = statvfs(data_dir)?;
    Ok(disk.blocks_available() * disk.fragment_size())
}

fn take(path: &Path) -> io::Result<()> {
    let file: File = OpenOptions::new().create_new(true).write(true).open(path)?;
    let bytes = i64::try_from(BYTES).expect("a few megabytes");
    let taken = fallocate(&file, FallocateFlags::empty(), 0, bytes);
    if taken.is_err() {
        fs::remove_file(path)?;
    }
    Ok(taken?)
}
