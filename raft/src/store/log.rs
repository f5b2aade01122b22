//! openraft's view of the store. An appended entry can be read at once; it is durable when the callback runs.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use openraft::OptionalSend;
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use tokio::sync::oneshot;

use super::thread::{Command, Reply};
use super::{BACKLOG_BYTES, LogStore, last_index, next_index};
use crate::types::{Entry, LogId, TypeConfig, Vote, entry_bytes};

/// Most bytes sent to a follower at once; a single larger entry still goes.
const RANGE_BYTES: usize = 256 << 10;

impl LogStore {
    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> io::Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply))?;
        answer.await.map_err(|_| closed())?
    }

    fn send(&self, command: Command) -> io::Result<()> {
        self.commands.send(command).map_err(|_| closed())
    }

    async fn read(&self, range: Range<u64>, limit_bytes: usize) -> io::Result<Vec<Entry>> {
        let start = range.start.max(next_index(*self.shared.purged.lock()));
        let end = range.end.min(next_index(*self.shared.last.lock()));
        if start >= end {
            return Ok(Vec::new());
        }
        let range = start..end;
        let cached = self.shared.cache.lock().read(&range, limit_bytes);
        match cached {
            Some(entries) => Ok(entries),
            None => self.ask(|reply| Command::Read(range, limit_bytes, reply)).await,
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the store is closed")
}

fn half_open(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end + 1,
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        self.read(half_open(&range), usize::MAX).await
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(*self.shared.vote.lock())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        self.read(start..end, RANGE_BYTES).await
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        Ok(LogState { last_purged_log_id: *self.shared.purged.lock(), last_log_id: *self.shared.last.lock() })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.ask(|reply| Command::Vote(*vote, reply)).await?;
        *self.shared.vote.lock() = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        *self.shared.committed.lock() = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(*self.shared.committed.lock())
    }

    async fn append<I>(&mut self, entries: I, done: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let weight = entries.iter().map(entry_bytes).sum::<usize>();
        let weight = u32::try_from(weight).unwrap_or(BACKLOG_BYTES).min(BACKLOG_BYTES);
        let _backlog = Arc::clone(&self.backlog).acquire_many_owned(weight).await.map_err(|_| closed())?;
        if let Some(last) = entries.last() {
            let mut cache = self.shared.cache.lock();
            entries.iter().for_each(|entry| cache.push(entry.clone()));
            *self.shared.last.lock() = Some(last.log_id());
        }
        self.send(Command::Append { entries, done, _backlog })
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let index = last.map(|log_id| log_id.index);
        self.shared.cache.lock().truncate_after(index);
        {
            let mut end = self.shared.last.lock();
            if last_index(*end) > index {
                *end = last;
            }
        }
        self.ask(|reply| Command::Truncate(last, reply)).await
    }

    async fn purge(&mut self, log_id: LogId) -> io::Result<()> {
        self.ask(|reply| Command::Purge(log_id, reply)).await?;
        self.shared.cache.lock().purge(log_id.index);
        let mut purged = self.shared.purged.lock();
        *purged = (*purged).max(Some(log_id));
        let mut last = self.shared.last.lock();
        *last = (*last).max(Some(log_id));
        Ok(())
    }
}
