//! The end of the log in memory: what replication and apply ask for nearly always. Entries that are not yet
//! durable are kept whatever they weigh, since only here they can be read.

use std::collections::VecDeque;
use std::ops::Range;

use openraft::entry::RaftEntry;

use crate::types::{Entry, entry_bytes};

/// What durable entries may weigh.
const CACHE_BYTES: usize = 16 << 20;

/// Consecutive entries up to the last of the log.
#[derive(Default)]
pub(super) struct Cache {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Entries below this index are durable.
    durable_end: u64,
}

impl Cache {
    fn first(&self) -> Option<u64> {
        self.entries.front().map(RaftEntry::index)
    }

    pub(super) fn push(&mut self, entry: Entry) {
        if self.entries.back().is_some_and(|last| last.index() + 1 != entry.index()) {
            self.clear();
        }
        self.bytes += entry_bytes(&entry);
        self.entries.push_back(entry);
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// Entries below `end` are durable; the oldest of them go when there are too many.
    pub(super) fn set_durable(&mut self, end: u64) {
        self.durable_end = end;
        while self.bytes > CACHE_BYTES && self.first().is_some_and(|first| first < end) {
            self.pop_front();
        }
    }

    fn pop_front(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry_bytes(&entry);
        }
    }

    pub(super) fn truncate_after(&mut self, index: Option<u64>) {
        while self.entries.back().is_some_and(|last| Some(last.index()) > index) {
            if let Some(entry) = self.entries.pop_back() {
                self.bytes -= entry_bytes(&entry);
            }
        }
        self.durable_end = self.durable_end.min(index.map_or(0, |index| index + 1));
    }

    pub(super) fn purge(&mut self, up_to: u64) {
        while self.first().is_some_and(|first| first <= up_to) {
            self.pop_front();
        }
    }

    /// The entries in `range` up to `limit_bytes`, at least one if there is one; None when the beginning
    /// of the range is not here.
    pub(super) fn read(&self, range: &Range<u64>, limit_bytes: usize) -> Option<Vec<Entry>> {
        let first = self.first()?;
        if range.start < first {
            return None;
        }
        let skip = usize::try_from(range.start - first).ok()?;
        let mut total = 0;
        let mut found = Vec::new();
        for entry in self.entries.iter().skip(skip).take_while(|entry| entry.index() < range.end) {
            if total >= limit_bytes {
                break;
            }
            total += entry_bytes(entry);
            found.push(entry.clone());
        }
        Some(found)
    }
}
