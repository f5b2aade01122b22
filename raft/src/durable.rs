//! Files that are there completely or not at all, whatever moment the power fails: temporary name, fsync,
//! rename, fsync of the directory.

use std::io::{self, Write};
use std::path::Path;

use crate::faults;
use crate::files::{self, File};

/// Replaces `path` with `bytes`, durably.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    let written = file.write_all(bytes).and_then(|()| sync(&file));
    if let Err(error) = written {
        // The old file stays in force; what was written of the new one only takes room.
        let _ = files::remove_file(&temporary);
        return Err(error);
    }
    files::rename(&temporary, path)?;
    sync_parent(path)
}

/// Makes the entry of `path` in its directory durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync(&File::open(parent)?),
        _ => sync(&File::open(".")?),
    }
}

/// Any fsync of a file takes the whole journal of an ext4 along: so a planted lack of fsync is one here too, or
/// this would cover for it.
fn sync(file: &File) -> io::Result<()> {
    if faults::skips_sync() { Ok(()) } else { file.sync_all() }
}
