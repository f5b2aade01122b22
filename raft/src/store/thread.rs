//! The storage thread: it alone touches the database. Commands are performed in the order they came; all
//! that wait for durability when the queue is empty share one fsync (group commit). A write or fsync that fails
//! ends the process: the kernel reports it once, and the next fsync would answer for what never reached the disk.

#[cfg(feature = "simulation")]
mod simulated;

use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use openraft::entry::RaftEntry;
use openraft::storage::IOFlushed;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::database::Database;
use super::stall::{PROBE_PERIOD, probe};
use super::{COMMITTED, PURGED, Shared, VOTE, decode, encode, last_index};
use crate::fatal::{panic_message, stop_process};
use crate::identity::Identity;
use crate::reserve;
use crate::types::{Entry, LogId, TypeConfig, Vote, entry_bytes};

/// A group is made durable when it has grown to this, even if more is waiting.
const GROUP_BYTES: usize = 8 << 20;
/// Parts deleted between two other commands while a purge is under way.
const PURGE_SLICE: usize = 512;
/// Bounds of the log index are raised at most this often; each costs two fsyncs.
const BOUNDS_PERIOD: Duration = Duration::from_secs(2);

#[cfg(feature = "simulation")]
pub(super) use self::simulated::Commands;
#[cfg(not(feature = "simulation"))]
pub(super) type Commands = std::sync::mpsc::Sender<Command>;
pub(super) type Reply<T> = oneshot::Sender<io::Result<T>>;

pub(super) enum Command {
    Append {
        entries: Vec<Entry>,
        done: IOFlushed<TypeConfig>,
        _backlog: OwnedSemaphorePermit,
    },
    Vote(Vote, Reply<()>),
    Truncate(Option<LogId>, Reply<()>),
    Purge(LogId, Reply<()>),
    Read(Range<u64>, usize, Reply<Vec<Entry>>),
    /// Lets go of the files; `marking` how far the log is committed, unless it is to look like a crash.
    Close {
        marking: bool,
        done: oneshot::Sender<()>,
    },
}

/// What waits for the next fsync.
enum Waiting {
    Append { end: Option<u64>, done: IOFlushed<TypeConfig>, _backlog: OwnedSemaphorePermit },
    Vote(Vote, Reply<()>),
    Purge(Reply<()>),
}

pub(super) struct Thread {
    database: Database,
    shared: Arc<Shared>,
    identity: Identity,
    data_dir: PathBuf,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    /// Records up to this index are still to be deleted.
    purging: Option<u64>,
    /// End of the log as the database has it: what is still in the queue is not part of it.
    written: Option<LogId>,
    bounds_raised: Option<Instant>,
    committed_written: Option<LogId>,
}

impl Thread {
    pub(super) fn new(
        database: Database,
        shared: Arc<Shared>,
        identity: Identity,
        data_dir: PathBuf,
    ) -> Self {
        let purging = last_index(*shared.purged.lock());
        let committed_written = *shared.committed.lock();
        let written = *shared.last.lock();
        Self {
            database,
            shared,
            identity,
            data_dir,
            waiting: Vec::new(),
            waiting_bytes: 0,
            purging,
            written,
            bounds_raised: None,
            committed_written,
        }
    }

    /// Gives it a thread of its own; answers the way to it.
    #[cfg(not(feature = "simulation"))]
    pub(super) fn start(self) -> io::Result<Commands> {
        let (commands, queue) = std::sync::mpsc::channel();
        self.spawn(queue).map(|()| commands)
    }

    fn spawn(self, queue: Receiver<Command>) -> io::Result<()> {
        let named = std::thread::Builder::new().name("storage".to_owned());
        named.spawn(move || self.run(&queue)).map(|_| ())
    }

    /// Runs until closed. A panic of the database leaves it in no state to go on with.
    fn run(mut self, commands: &Receiver<Command>) {
        match catch_unwind(AssertUnwindSafe(|| self.serve(commands))) {
            Err(panic) => stop_process(&format!("the store panicked: {}", panic_message(&*panic))),
            Ok(closed) => {
                // Whoever waits may open the store again: it must be let go of first.
                drop(self);
                if let Some(done) = closed {
                    let _ = done.send(());
                }
            }
        }
    }

    fn serve(&mut self, commands: &Receiver<Command>) -> Option<oneshot::Sender<()>> {
        loop {
            let command = match commands.try_recv() {
                Ok(command) => command,
                Err(TryRecvError::Disconnected) => {
                    self.finish();
                    return None;
                }
                Err(TryRecvError::Empty) => {
                    if self.timed(|thread| {
                        thread.make_durable();
                        thread.purge_slice()
                    }) {
                        continue;
                    }
                    match commands.recv_timeout(PROBE_PERIOD) {
                        Ok(command) => command,
                        Err(RecvTimeoutError::Timeout) => {
                            self.probe();
                            continue;
                        }
                        Err(RecvTimeoutError::Disconnected) => continue,
                    }
                }
            };
            if let Command::Close { marking, done } = command {
                if marking {
                    self.finish();
                }
                return Some(done);
            }
            self.timed(|thread| {
                thread.perform(command);
                if thread.waiting_bytes >= GROUP_BYTES {
                    thread.make_durable();
                }
            });
        }
    }

    /// Does `work` in sight of those who watch how long it takes.
    fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.shared.busy.begin();
        let done = work(self);
        self.shared.busy.end();
        done
    }

    /// Only its duration counts: what cannot be written, the next append will say.
    fn probe(&mut self) {
        let tried = self.timed(|thread| probe(&thread.data_dir));
        if let Err(error) = tried {
            tracing::debug!(%error, "the disk does not take a probe");
        }
    }

    fn perform(&mut self, command: Command) {
        match command {
            Command::Append { entries, done, _backlog } => {
                let end = self.append(&entries).unwrap_or_else(|error| self.fail(&error));
                self.waiting.push(Waiting::Append { end, done, _backlog });
            }
            Command::Vote(vote, reply) => {
                self.put(VOTE, &vote);
                self.waiting.push(Waiting::Vote(vote, reply));
            }
            Command::Purge(log_id, reply) => {
                self.put(PURGED, &log_id);
                self.purging = self.purging.max(Some(log_id.index));
                self.written = self.written.max(Some(log_id));
                self.waiting.push(Waiting::Purge(reply));
            }
            // Need not be durable: entries that come back after a crash conflict again.
            Command::Truncate(last, reply) => {
                self.truncate_after(last).unwrap_or_else(|error| self.fail(&error));
                answer(reply, Ok(()));
            }
            Command::Read(range, limit_bytes, reply) => answer(reply, self.read(range, limit_bytes)),
            Command::Close { .. } => {}
        }
    }

    /// Answers the index after the last entry.
    fn append(&mut self, entries: &[Entry]) -> io::Result<Option<u64>> {
        let records: Vec<_> = entries.iter().map(|entry| (entry.index(), encode(entry))).collect();
        self.waiting_bytes += entries.iter().map(entry_bytes).sum::<usize>();
        self.database.append(&records)?;
        crate::simulated::appended(entries);
        self.written = entries.last().map(RaftEntry::log_id).or(self.written);
        Ok(records.last().map(|(index, _)| index + 1))
    }

    fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        self.database.truncate_after(last_index(last))?;
        crate::simulated::truncated(last);
        if last_index(self.written) > last_index(last) {
            self.written = last;
        }
        Ok(())
    }

    fn read(&self, range: Range<u64>, limit_bytes: usize) -> io::Result<Vec<Entry>> {
        let records = self.database.read(range, limit_bytes)?;
        records.into_iter().map(|(index, record)| decode(&format!("log entry {index}"), &record)).collect()
    }

    fn put(&self, name: &str, value: &impl Serialize) {
        self.database.put(name, &encode(value)).unwrap_or_else(|error| self.fail(&error));
    }

    /// If the disk is full, what is freed here is what the node comes back with.
    fn fail(&self, error: &io::Error) -> ! {
        reserve::adjust(&self.data_dir);
        stop_process(&format!("the store cannot be written: {error}"))
    }

    /// One fsync for all that waits for one.
    fn make_durable(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        self.write_committed();
        self.sync();
        self.waiting_bytes = 0;
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Append { end, done, _backlog } => {
                    if let Some(end) = end {
                        self.shared.cache.lock().set_durable(end);
                    }
                    done.io_completed(Ok(()));
                }
                Waiting::Vote(vote, reply) => {
                    self.raise_vote_bound(&vote);
                    answer(reply, Ok(()));
                }
                Waiting::Purge(reply) => answer(reply, Ok(())),
            }
        }
        if self.bounds_raised.is_none_or(|at| at.elapsed() >= BOUNDS_PERIOD) {
            self.raise_log_bound();
        }
    }

    fn sync(&self) {
        self.database.sync().unwrap_or_else(|error| self.fail(&error));
    }

    /// The marker only shortens the replay after a restart: it rides along, and nothing waits for it. Other nodes
    /// may have committed more than is written here; a log that did not reach its own marker would look damaged.
    fn write_committed(&mut self) {
        let committed = *self.shared.committed.lock();
        // What is written is a prefix of the log, since a truncation is awaited: below a committed index all is.
        let is_written = last_index(committed) <= last_index(self.written);
        let committed = if is_written { committed } else { self.written };
        if let Some(log_id) = committed.filter(|_| committed != self.committed_written) {
            self.put(COMMITTED, &log_id);
            self.committed_written = committed;
        }
    }

    fn raise_vote_bound(&mut self, vote: &Vote) {
        self.identity.bounds.vote = (vote.leader_id.term, vote.leader_id.node_id);
        self.identity.save(&self.data_dir).unwrap_or_else(|error| self.fail(&io::Error::other(error)));
    }

    /// A committed entry is never truncated: once it is durable here, the log must reach it for ever.
    fn raise_log_bound(&mut self) {
        let bound = last_index(self.committed_written).unwrap_or(0);
        if bound <= self.identity.bounds.log_index {
            return;
        }
        self.identity.bounds.log_index = bound;
        match self.identity.save(&self.data_dir) {
            Ok(()) => self.bounds_raised = Some(Instant::now()),
            // A lower bound that lags is still a lower bound.
            Err(error) => tracing::warn!(%error, "cannot raise the bounds in node.json"),
        }
    }

    /// True while there is more to delete.
    fn purge_slice(&mut self) -> bool {
        let Some(up_to) = self.purging else { return false };
        match self.database.delete_some(up_to, PURGE_SLICE) {
            Ok(true) => true,
            Ok(false) => {
                self.purging = None;
                false
            }
            Err(error) => {
                // They only take room, and the next purge tries again.
                tracing::warn!(%error, "cannot delete purged log entries");
                self.purging = None;
                false
            }
        }
    }

    /// A graceful end: the committed marker and its bound are worth an fsync.
    fn finish(&mut self) {
        self.make_durable();
        self.write_committed();
        self.sync();
        self.raise_log_bound();
    }
}

/// Whoever asked may have gone.
fn answer<T>(reply: Reply<T>, result: io::Result<T>) {
    let _ = reply.send(result);
}

#[cfg(test)]
mod tests {
    use holm_model::{ClusterId, NodeId};
    use openraft::testing::log_id;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::store::{self, DIR};

    fn at(index: u64) -> LogId {
        log_id::<TypeConfig>(1, 1, index)
    }

    fn thread(data_dir: &std::path::Path) -> Thread {
        let identity = Identity::new(ClusterId(uuid::Uuid::from_u128(7)), NodeId(1), "a".to_owned(), None);
        store::create(data_dir, &identity).unwrap();
        identity.save(data_dir).unwrap();
        let database = Database::open(&data_dir.join(DIR)).unwrap();
        Thread::new(database, Arc::default(), identity, data_dir.to_owned())
    }

    fn append(thread: &mut Thread, range: Range<u64>) {
        let _backlog = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let entries = range.map(|index| Entry::new_blank(at(index))).collect();
        thread.perform(Command::Append { entries, done: IOFlushed::noop(), _backlog });
    }

    /// What `node.json` promises after a sync, and how far a later start takes the log for committed.
    fn marked(thread: Thread) -> (u64, Option<LogId>) {
        let data_dir = thread.data_dir.clone();
        drop(thread);
        let identity = Identity::load(&data_dir).unwrap();
        let store = store::open(&data_dir, &identity).unwrap();
        let committed = *store.shared.committed.lock();
        (identity.bounds.log_index, committed)
    }

    #[test]
    fn what_others_committed_ahead_of_this_disk_is_not_promised() {
        let dir = tempfile::tempdir().unwrap();
        let mut thread = thread(dir.path());
        append(&mut thread, 0..5);
        *thread.shared.committed.lock() = Some(at(9));
        thread.make_durable();
        assert_eq!(marked(thread), (4, Some(at(4))));
    }

    #[test]
    fn what_is_committed_and_durable_here_is_promised() {
        let dir = tempfile::tempdir().unwrap();
        let mut thread = thread(dir.path());
        append(&mut thread, 0..5);
        *thread.shared.committed.lock() = Some(at(3));
        thread.make_durable();
        assert_eq!(marked(thread), (3, Some(at(3))));
    }

    #[test]
    fn a_truncated_end_is_not_promised_and_a_purge_is() {
        let dir = tempfile::tempdir().unwrap();
        let mut thread = thread(dir.path());
        append(&mut thread, 0..5);
        thread.perform(Command::Truncate(Some(at(1)), oneshot::channel().0));
        append(&mut thread, 2..3);
        *thread.shared.committed.lock() = Some(at(4));
        assert_eq!(thread.written, Some(at(2)));
        thread.perform(Command::Purge(at(7), oneshot::channel().0));
        *thread.shared.committed.lock() = Some(at(9));
        thread.finish();
        while thread.purge_slice() {}
        assert_eq!(marked(thread), (7, Some(at(7))));
    }
}
