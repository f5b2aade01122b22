//! The store as records and named values on [`Trees`]: a record is split below the size at which it would not be
//! durable, and put together again, whole or not at all. All calls block, and only the storage thread makes them.

use std::io;
use std::ops::Range;
use std::path::Path;

use super::Error;
use super::trees::Key;
use crate::{durable, faults};

#[cfg(not(feature = "simulation"))]
use super::trees::Trees;
#[cfg(feature = "simulation")]
use crate::simulated::trees::Trees;

/// Longest value given to the trees.
const PART_BYTES: usize = 4000;
/// Length of a record, ahead of its first part.
const LENGTH_BYTES: usize = 4;

/// One store of log records and a few named values.
pub(super) struct Database(Trees);

impl Database {
    /// Makes a new, empty store, durably.
    pub(super) fn create(dir: &Path) -> Result<Self, Error> {
        let this = Self(Trees::open(dir)?);
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
        Trees::check_present(dir)?;
        let this = Self(Trees::open(dir)?);
        this.refuse_blobs().map_err(Error::Io)?;
        Ok(this)
    }

    /// Whether what does not open as a store holds something all the same.
    pub(super) fn has_remains(dir: &Path) -> bool {
        Trees::has_remains(dir)
    }

    /// Everything written before this call survives a loss of power after it.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.flush()?;
        self.refuse_blobs()?;
        if faults::skips_sync() {
            return Ok(());
        }
        self.0.fsync()?;
        faults::after_sync()
    }

    /// A value in a file of its own was not fsynced with the rest.
    fn refuse_blobs(&self) -> io::Result<()> {
        if faults::keeps_values_whole() {
            return Ok(());
        }
        match self.0.blob()? {
            None => Ok(()),
            Some(blob) => Err(io::Error::other(format!(
                "the store has a blob file ({}), which is not durable",
                blob.display()
            ))),
        }
    }

    pub(super) fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.0.get(name)
    }

    /// Not durable before the next [`sync`](Self::sync).
    pub(super) fn put(&self, name: &str, value: &[u8]) -> io::Result<()> {
        self.0.put(name, value)
    }

    /// Writes records, all or none. Not durable before the next [`sync`](Self::sync).
    pub(super) fn append(&self, records: &[(u64, Vec<u8>)]) -> io::Result<()> {
        let part_bytes = if faults::keeps_values_whole() { usize::MAX } else { PART_BYTES };
        let mut whole = Vec::with_capacity(records.len());
        for (index, record) in records {
            let mut bytes = Vec::with_capacity(LENGTH_BYTES + record.len());
            let length = u32::try_from(record.len()).map_err(|_| io::Error::other("a record over 4 GiB"))?;
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(record);
            whole.push((*index, bytes));
        }
        let mut changes = Vec::new();
        for (index, bytes) in &whole {
            for (part, value) in bytes.chunks(part_bytes).enumerate() {
                let part = u32::try_from(part).map_err(|_| io::Error::other("a record of too many parts"))?;
                changes.push((key(*index, part), Some(value)));
            }
        }
        self.0.write(&changes)
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
        for item in self.0.range(key(range.start, 0)..key(range.end, 0)) {
            let (key, value) = item?;
            let (index, part) = parse_key(key.as_ref())?;
            let record = match partial.take() {
                None => Partial::begin(index, part, value.as_ref())?,
                Some(record) => record.add(index, part, value.as_ref())?,
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

    /// Deletes the records after `index`, all or none.
    pub(super) fn truncate_after(&self, index: Option<u64>) -> io::Result<()> {
        let first = index.map_or(0, |index| index + 1);
        self.delete(key(first, 0)..key(u64::MAX, u32::MAX), usize::MAX).map(|_| ())
    }

    /// Deletes at most `parts` parts of records up to `index`, lowest first. False when none is left.
    pub(super) fn delete_some(&self, up_to: u64, parts: usize) -> io::Result<bool> {
        Ok(self.delete(key(0, 0)..key(up_to + 1, 0), parts)? == parts)
    }

    /// Answers how many parts were deleted.
    fn delete(&self, range: Range<Key>, most: usize) -> io::Result<usize> {
        let mut changes = Vec::new();
        for item in self.0.range(range).take(most) {
            let (index, part) = parse_key(item?.0.as_ref())?;
            changes.push((key(index, part), None));
        }
        self.0.write(&changes)?;
        Ok(changes.len())
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

fn key(index: u64, part: u32) -> Key {
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
