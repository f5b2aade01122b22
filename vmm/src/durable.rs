//! Small files that must survive a power cut: written under a temporary name, fsynced, renamed, and the
//! directory fsynced. A reader sees the old content or the new, never a part.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Whether a write waits for the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// It does: the content survives a power cut.
    Yes,
    /// It does not: the content survives the death of this process only.
    No,
}

/// Replaces the content of `path` by `record` as JSON.
pub fn write_json<T: Serialize>(path: &Path, record: &T, sync: Sync) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(record).map_err(io::Error::other)?;
    bytes.push(b'\n');
    let temporary = path.with_extension("tmp");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&bytes)?;
    if sync == Sync::Yes {
        file.sync_all()?;
    }
    std::fs::rename(&temporary, path)?;
    if sync == Sync::Yes {
        sync_parent(path)?;
    }
    Ok(())
}

/// Reads what [`write_json`] wrote; `None` when there is no such file.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Makes entries of the directory that holds `path` durable.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}
