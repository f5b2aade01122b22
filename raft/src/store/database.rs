//! The only file that names sled: what it takes to make it keep its word.
//!
//! `flush` alone is not durable, so the file is fsynced after it, and before sled reuses a part of it
//! ([`range_sync`]); values are split below the size at which sled writes a file of its own without fsync;
//! opening is guarded, because sled panics on damage. All calls block, and only the storage thread makes them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::{Error, range_sync};
use crate::durable;
use crate::fatal::panic_message;
use crate::faults;

/// Longest value given to sled.
const PART_BYTES: usize = 4000;
/// Length of a record, ahead of its first part.
const LENGTH_BYTES: usize = 4;
/// The default, 1 GiB, is more than a daemon should take.
const CACHE_BYTES: u64 = 16 << 20;

/// One store of log records and a few named values.
pub(super) struct Database {
    db: sled::Db,
    log: sled::Tree,
    meta: sled::Tree,
    /// Kept open, so that an fsync reports every write error since the last one.
    file: File,
    dir: PathBuf,
}

impl Database {
    /// Makes a new, empty store, durably.
    pub(super) fn create(dir: &Path) -> Result<Self, Error> {
        let this = Self::open_guarded(dir)?;
        this.sync().map_err(Error::Io)?;
        for path in [dir.join("db"), dir.to_owned()] {
            durable::sync_parent(&path).map_err(Error::Io)?;
        }
        if let Some(parent) = dir.parent() {
            durable::sync_parent(parent).map_err(Error::Io)?;
        }
        Ok(this)
    }

    /// Opens a store that must be there.
    pub(super) fn open(dir: &Path) -> Result<Self, Error> {
        for name in ["db", "conf"] {
            if !dir.join(name).is_file() {
                return Err(Error::Missing(dir.to_owned()));
            }
        }
        // sled would take an emptied file for a new store.
        if std::fs::metadata(dir.join("db")).map_err(Error::Io)?.len() == 0 {
            return Err(Error::Empty(dir.to_owned()));
        }
        let this = Self::open_guarded(dir)?;
        this.refuse_blobs().map_err(Error::Io)?;
        Ok(this)
    }

    fn open_guarded(dir: &Path) -> Result<Self, Error> {
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

    /// Everything written before this call survives a loss of power after it.
    pub(super) fn sync(&self) -> io::Result<()> {
        if self.db.flush().map_err(into_io)? > 0 {
            range_sync::check()?;
        }
        self.refuse_blobs()?;
        if faults::skips_sync() {
            return Ok(());
        }
        self.file.sync_all()?;
        faults::after_sync()
    }

    /// A value that sled moved to a file of its own was not fsynced with the rest.
    fn refuse_blobs(&self) -> io::Result<()> {
        if faults::keeps_values_whole() {
            return Ok(());
        }
        match std::fs::read_dir(self.dir.join("blobs")).and_then(|mut dir| dir.next().transpose()) {
            Ok(None) => Ok(()),
            Ok(Some(blob)) => Err(io::Error::other(format!(
                "the store has a blob file ({}), which is not durable",
                blob.path().display()
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.meta.get(name).map_err(into_io)?.map(|value| value.to_vec()))
    }

    /// Not durable before the next [`sync`](Self::sync).
    pub(super) fn put(&self, name: &str, value: &[u8]) -> io::Result<()> {
        self.meta.insert(name, value).map_err(into_io)?;
        Ok(())
    }

    /// Writes records, all or none. Not durable before the next [`sync`](Self::sync).
    pub(super) fn append(&self, records: &[(u64, Vec<u8>)]) -> io::Result<()> {
        let part_bytes = if faults::keeps_values_whole() { usize::MAX } else { PART_BYTES };
        let mut batch = sled::Batch::default();
        for (index, record) in records {
            let mut bytes = Vec::with_capacity(LENGTH_BYTES + record.len());
            let length = u32::try_from(record.len()).map_err(|_| io::Error::other("a record over 4 GiB"))?;
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(record);
            for (part, value) in bytes.chunks(part_bytes).enumerate() {
                let part = u32::try_from(part).map_err(|_| io::Error::other("a record of too many parts"))?;
                batch.insert(&key(*index, part)[..], value);
            }
        }
        self.log.apply_batch(batch).map_err(into_io)
    }

    /// Records in `range`, in order, until `limit_bytes` are exceeded; at least one if there is one.
    pub(super) fn read(&self, range: Range<u64>, limit_bytes: usize) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let mut records = Vec::new();
        let mut total = 0;
        self.scan(range, |index, record| {
            total += record.len();
            records.push((index, record));
            total < limit_bytes
        })?;
        Ok(records)
    }

    /// Gives every record in `range` to `each` until it answers false.
    pub(super) fn scan(
        &self,
        range: Range<u64>,
        mut each: impl FnMut(u64, Vec<u8>) -> bool,
    ) -> io::Result<()> {
        let mut partial: Option<Partial> = None;
        for item in self.log.range(&key(range.start, 0)[..]..&key(range.end, 0)[..]) {
            let (key, value) = item.map_err(into_io)?;
            let (index, part) = parse_key(&key)?;
            let record = match partial.take() {
                None => Partial::begin(index, part, &value)?,
                Some(record) => record.add(index, part, &value)?,
            };
            if record.bytes.len() < record.length {
                partial = Some(record);
            } else if !each(index, record.bytes) {
                return Ok(());
            }
        }
        match partial {
            None => Ok(()),
            Some(record) => Err(damaged(format!("log entry {} lacks its end", record.index))),
        }
    }

    /// Deletes the records after `index`, from the end backward, all or none.
    pub(super) fn truncate_after(&self, index: Option<u64>) -> io::Result<()> {
        let first = index.map_or(0, |index| index + 1);
        let mut batch = sled::Batch::default();
        for item in self.log.range(&key(first, 0)[..]..) {
            batch.remove(item.map_err(into_io)?.0);
        }
        self.log.apply_batch(batch).map_err(into_io)
    }

    /// Deletes at most `parts` parts of records up to `index`, lowest first. False when none is left.
    pub(super) fn delete_some(&self, up_to: u64, parts: usize) -> io::Result<bool> {
        let mut batch = sled::Batch::default();
        let mut found = 0;
        for item in self.log.range(..&key(up_to + 1, 0)[..]).take(parts) {
            batch.remove(item.map_err(into_io)?.0);
            found += 1;
        }
        self.log.apply_batch(batch).map_err(into_io)?;
        Ok(found == parts)
    }
}

/// A record of which not all parts are read.
struct Partial {
    index: u64,
    next_part: u32,
    length: usize,
    bytes: Vec<u8>,
}

impl Partial {
    fn begin(index: u64, part: u32, value: &[u8]) -> io::Result<Self> {
        let Some((length, rest)) = value.split_first_chunk::<LENGTH_BYTES>().filter(|_| part == 0) else {
            return Err(damaged(format!("log entry {index} lacks its beginning")));
        };
        let length = u32::from_be_bytes(*length) as usize;
        Ok(Self { index, next_part: 1, length, bytes: rest.to_vec() })
    }

    fn add(mut self, index: u64, part: u32, value: &[u8]) -> io::Result<Self> {
        if index != self.index || part != self.next_part {
            return Err(damaged(format!("log entry {} lacks part {}", self.index, self.next_part)));
        }
        self.next_part += 1;
        self.bytes.extend_from_slice(value);
        Ok(self)
    }
}

fn key(index: u64, part: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&index.to_be_bytes());
    key[8..].copy_from_slice(&part.to_be_bytes());
    key
}

fn parse_key(key: &[u8]) -> io::Result<(u64, u32)> {
    match key.split_first_chunk::<8>() {
        Some((index, part)) if part.len() == 4 => {
            let part = u32::from_be_bytes([part[0], part[1], part[2], part[3]]);
            Ok((u64::from_be_bytes(*index), part))
        }
        _ => Err(damaged(format!("a log key of {} bytes", key.len()))),
    }
}

fn damaged(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn into_io(error: sled::Error) -> io::Error {
    match error {
        sled::Error::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
