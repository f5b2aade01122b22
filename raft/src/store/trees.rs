//! The only file that names sled: ordered maps on disk, and what it takes to make sled keep its word.
//!
//! `flush` alone is not durable, so the file is fsynced after it, and before sled reuses a part of it
//! ([`range_sync`]); a value that sled moves to a file of its own is not fsynced at all, so such files are told;
//! opening is guarded, because sled panics on damage. All calls block, and only the storage thread makes them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::{Error, range_sync};
use crate::fatal::panic_message;

/// The default, 1 GiB, is more than a daemon should take.
const CACHE_BYTES: u64 = 16 << 20;

/// Of a part of a log record.
pub type Key = [u8; 12];

/// A tree of log records in parts, and one of a few named values.
pub(crate) struct Trees {
    db: sled::Db,
    log: sled::Tree,
    meta: sled::Tree,
    /// Kept open, so that an fsync reports every write error since the last one.
    file: File,
    dir: PathBuf,
}

impl Trees {
    /// Opens what is in `dir`, or makes it.
    pub(crate) fn open(dir: &Path) -> Result<Self, Error> {
        let corrupt = |what: String| Error::Corrupt { dir: dir.to_owned(), what };
        let opened = catch_unwind(AssertUnwindSafe(|| -> sled::Result<_> {
            let db = sled::Config::new()
                .path(dir)
                .flush_every_ms(None)
                .cache_capacity(CACHE_BYTES)
                .mode(sled::Mode::HighThroughput)
                .open()?;
            let log = db.open_tree("log")?;
            let meta = db.open_tree("meta")?;
            Ok((db, log, meta))
        }));
        let (db, log, meta) = match opened {
            Ok(Ok(trees)) => trees,
            Ok(Err(sled::Error::Io(error))) if error.to_string().contains("could not acquire lock") => {
                return Err(Error::Locked(dir.to_owned()));
            }
            Ok(Err(sled::Error::Io(error))) => return Err(Error::Io(error)),
            Ok(Err(error)) => return Err(corrupt(error.to_string())),
            Err(panic) => return Err(corrupt(panic_message(&*panic))),
        };
        let file = File::open(dir.join("db")).map_err(Error::Io)?;
        Ok(Self { db, log, meta, file, dir: dir.to_owned() })
    }

    /// Whether there is anything in `dir` to open: sled would take nothing, or an emptied file, for a new store.
    pub(crate) fn check_present(dir: &Path) -> Result<(), Error> {
        for name in ["db", "conf"] {
            if !dir.join(name).is_file() {
                return Err(Error::Missing(dir.to_owned()));
            }
        }
        match std::fs::metadata(dir.join("db")).map_err(Error::Io)?.len() {
            0 => Err(Error::Empty(dir.to_owned())),
            _ => Ok(()),
        }
    }

    /// Whether something is in `dir`, with one of its files missing, that a node may have written.
    pub(crate) fn has_remains(dir: &Path) -> bool {
        std::fs::metadata(dir.join("db")).is_ok_and(|file| file.len() > 0)
    }

    /// Gives what was written to the kernel.
    pub(crate) fn flush(&self) -> io::Result<()> {
        if self.db.flush().map_err(into_io)? > 0 {
            range_sync::check()?;
        }
        Ok(())
    }

    /// What was flushed survives a loss of power from now on.
    pub(crate) fn fsync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// A value that sled moved to a file of its own, if there is one.
    pub(crate) fn blob(&self) -> io::Result<Option<PathBuf>> {
        match std::fs::read_dir(self.dir.join("blobs")).and_then(|mut dir| dir.next().transpose()) {
            Ok(blob) => Ok(blob.map(|blob| blob.path())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A named value.
    pub(crate) fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.meta.get(name).map_err(into_io)?.map(|value| value.to_vec()))
    }

    pub(crate) fn put(&self, name: &str, value: &[u8]) -> io::Result<()> {
        self.meta.insert(name, value).map_err(into_io)?;
        Ok(())
    }

    /// Writes parts of log records, or removes them; all or none.
    pub(crate) fn write(&self, changes: &[(Key, Option<&[u8]>)]) -> io::Result<()> {
        let mut batch = sled::Batch::default();
        for (key, value) in changes {
            match value {
                Some(value) => batch.insert(&key[..], *value),
                None => batch.remove(&key[..]),
            }
        }
        self.log.apply_batch(batch).map_err(into_io)
    }

    /// Parts of log records, in order.
    pub(crate) fn range(
        &self,
        range: Range<Key>,
    ) -> impl Iterator<Item = io::Result<(impl AsRef<[u8]>, impl AsRef<[u8]>)>> {
        self.log.range(&range.start[..]..&range.end[..]).map(|item| item.map_err(into_io))
    }
}

fn into_io(error: sled::Error) -> io::Error {
    match error {
        sled::Error::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
