//! The log, the vote and the purge marker on disk. Vote and entries are durable before anybody is told so;
//! a store that is missing, empty, damaged or behind what this node promised is refused, never recreated
//! under the same node id. `trees.rs` is the only file that names sled, `database.rs` its only user, `thread.rs` the only one
//! of that.

mod cache;
mod database;
mod log;
mod range_sync;
mod stall;
mod thread;
pub(crate) mod trees;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holm_model::planted::{Plant, planted};
use holm_model::{ClusterId, NodeId};
use openraft::entry::RaftEntry;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, oneshot};

use self::cache::Cache;
use self::database::Database;
use self::stall::Busy;
use self::thread::{Command, Commands, Thread};
use crate::files;
use crate::guarded::Guarded;
use crate::identity::{Bounds, HELD_A_NODE, Identity, REJOIN};
use crate::types::{Entry, LogId, Vote};

/// Directory of the store within the data directory.
const DIR: &str = "log";
/// What may wait for the disk before `append` waits.
const BACKLOG_BYTES: u32 = 64 << 20;
/// How long a predecessor in the same process may take to let go of the store.
const LOCK_WAIT: Duration = Duration::from_secs(3);

const IDENTITY: &str = "identity";
const VOTE: &str = "vote";
const PURGED: &str = "purged";
const COMMITTED: &str = "committed";

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the store {} is missing; {REJOIN}", .0.display())]
    Missing(PathBuf),
    #[error("the store {} is empty; {REJOIN}", .0.display())]
    Empty(PathBuf),
    #[error("the store {} is damaged ({what}); {REJOIN}", dir.display())]
    Corrupt { dir: PathBuf, what: String },
    #[error("the store {} has lost its end: it knows {found}, but {promised} was durable; {REJOIN}", dir.display())]
    Regressed { dir: PathBuf, found: String, promised: String },
    #[error("the store {} belongs to node {node} of cluster {cluster}, not to the node in node.json; {REJOIN}", dir.display())]
    Stranger { dir: PathBuf, node: NodeId, cluster: ClusterId },
    #[error("another process uses the store {}: stop it first", .0.display())]
    Locked(PathBuf),
    #[error("{} has a store but no node.json: {HELD_A_NODE}", .0.display())]
    Orphan(PathBuf),
    #[error("the store cannot be read or written")]
    Io(#[source] io::Error),
}

/// Whose store it is, kept inside it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    cluster: ClusterId,
    node: NodeId,
}

/// What log, readers and the storage thread share.
#[derive(Default)]
struct Shared {
    cache: Guarded<Cache>,
    /// Durable ones only.
    vote: Guarded<Option<Vote>>,
    purged: Guarded<Option<LogId>>,
    /// Of the log as written, durable or not.
    last: Guarded<Option<LogId>>,
    committed: Guarded<Option<LogId>>,
    busy: Busy,
}

/// The store. Clones share it.
#[derive(Clone)]
pub struct LogStore {
    shared: Arc<Shared>,
    commands: Commands,
    backlog: Arc<Semaphore>,
}

/// Makes the empty store of a new node.
///
/// # Errors
/// When there is one already, or it cannot be written.
pub(crate) fn create(data_dir: &Path, identity: &Identity) -> Result<(), Error> {
    clear_unused(data_dir)?;
    let database = Database::create(&data_dir.join(DIR))?;
    let owner = Owner { cluster: identity.cluster, node: identity.node };
    database.put(IDENTITY, &encode(&owner)).and_then(|()| database.sync()).map_err(Error::Io)
}

/// Removes what a creation that was cut short left: no store, or one without vote and entries. Anything more
/// belonged to a node, or still does, and stays.
///
/// # Errors
/// When there is more, or it cannot be told.
pub(crate) fn clear_unused(data_dir: &Path) -> Result<(), Error> {
    let dir = data_dir.join(DIR);
    if !files::exists(&dir).map_err(Error::Io)? {
        return Ok(());
    }
    let used = match open_database(&dir) {
        Ok(database) => is_used(&database).map_err(Error::Io)?,
        // Without one of its two files; what the other holds counts.
        Err(Error::Missing(_)) => Database::has_remains(&dir),
        Err(Error::Empty(_)) => false,
        Err(error) => return Err(error),
    };
    if used {
        return Err(Error::Orphan(data_dir.to_owned()));
    }
    files::remove_dir_all(&dir).map_err(Error::Io)
}

fn is_used(database: &Database) -> io::Result<bool> {
    let mut used = database.get(VOTE)?.is_some() || database.get(PURGED)?.is_some();
    database.scan(0..u64::MAX, |_, _| {
        used = true;
        false
    })?;
    Ok(used)
}

/// Opens the store of the node in `identity`, checking that it holds all it must.
///
/// # Errors
/// When it does not.
pub fn open(data_dir: &Path, identity: &Identity) -> Result<LogStore, Error> {
    let dir = data_dir.join(DIR);
    if planted(Plant::RecreateStore) && !files::exists(&dir).map_err(Error::Io)? {
        create(data_dir, identity)?;
    }
    let database = open_database(&dir)?;
    let shared = Arc::new(load(&dir, &database, identity)?);
    let thread = Thread::new(database, Arc::clone(&shared), identity.clone(), data_dir.to_owned());
    let commands = thread.start().map_err(Error::Io)?;
    Ok(LogStore { shared, commands, backlog: Arc::new(Semaphore::new(BACKLOG_BYTES as usize)) })
}

fn open_database(dir: &Path) -> Result<Database, Error> {
    let begun = Instant::now();
    loop {
        match Database::open(dir) {
            Err(Error::Locked(_)) if begun.elapsed() < LOCK_WAIT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            result => return result,
        }
    }
}

fn load(dir: &Path, database: &Database, identity: &Identity) -> Result<Shared, Error> {
    let corrupt = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData => Error::Corrupt { dir: dir.to_owned(), what: error.to_string() },
        _ => Error::Io(error),
    };
    let owner: Owner =
        value(database, IDENTITY).map_err(corrupt)?.ok_or_else(|| Error::Empty(dir.to_owned()))?;
    if owner != (Owner { cluster: identity.cluster, node: identity.node }) {
        return Err(Error::Stranger { dir: dir.to_owned(), node: owner.node, cluster: owner.cluster });
    }
    let purged: Option<LogId> = value(database, PURGED).map_err(corrupt)?;
    let vote: Option<Vote> = value(database, VOTE).map_err(corrupt)?;
    let last = last_entry(database, purged).map_err(corrupt)?.or(purged);
    let committed: Option<LogId> = value(database, COMMITTED).map_err(corrupt)?;
    if !planted(Plant::RecreateStore) {
        check_bounds(dir, identity.bounds, vote, last)?;
    }
    Ok(Shared {
        cache: Guarded::default(),
        vote: Guarded::new(vote),
        purged: Guarded::new(purged),
        last: Guarded::new(last),
        committed: Guarded::new(committed.filter(|committed| Some(*committed) <= last)),
        busy: Busy::default(),
    })
}

/// Walks the whole log: it must be there without a gap.
fn last_entry(database: &Database, purged: Option<LogId>) -> io::Result<Option<LogId>> {
    let mut next = next_index(purged);
    let mut last = None;
    let mut gap = None;
    database.scan(next..u64::MAX, |index, record| {
        if index != next {
            gap = Some(next);
            return false;
        }
        next += 1;
        last = Some(record);
        true
    })?;
    if let Some(index) = gap {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("log entry {index} is missing")));
    }
    last.map(|record| decode::<Entry>("the last log entry", &record).map(|entry| entry.log_id())).transpose()
}

fn check_bounds(dir: &Path, bounds: Bounds, vote: Option<Vote>, last: Option<LogId>) -> Result<(), Error> {
    let found = vote.map_or((0, 0), |vote| (vote.leader_id.term, vote.leader_id.node_id));
    let regressed =
        |found: String, promised: String| Error::Regressed { dir: dir.to_owned(), found, promised };
    if found < bounds.vote {
        let words = |(term, node)| format!("a vote for node {node} in term {term}");
        return Err(regressed(words(found), words(bounds.vote)));
    }
    let last = last_index(last).unwrap_or(0);
    if last < bounds.log_index {
        let words = |index| format!("log index {index}");
        return Err(regressed(words(last), words(bounds.log_index)));
    }
    Ok(())
}

impl LogStore {
    /// Last index deleted from the log; a snapshot must cover it.
    pub fn purged(&self) -> Option<LogId> {
        *self.shared.purged.lock()
    }

    /// For how long the storage thread has been at what it does now. A working disk takes milliseconds.
    pub(crate) fn busy_for(&self) -> Duration {
        self.shared.busy.elapsed()
    }

    /// Makes everything durable and lets go of the files.
    pub async fn close(&self) {
        self.end(true).await;
    }

    /// Lets go of the files as a crash would.
    #[cfg(feature = "planted-faults")]
    pub(crate) async fn abandon(&self) {
        self.end(false).await;
    }

    async fn end(&self, marking: bool) {
        let (done, closed) = oneshot::channel();
        if self.commands.send(Command::Close { marking, done }).is_ok() {
            let _ = closed.await;
        }
    }
}

fn value<T: DeserializeOwned>(database: &Database, name: &str) -> io::Result<Option<T>> {
    database.get(name)?.map(|bytes| decode(name, &bytes)).transpose()
}

pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("plain data always encodes into memory")
}

pub(crate) fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> io::Result<T> {
    rmp_serde::from_slice(bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{what}: {error}")))
}

fn last_index(log_id: Option<LogId>) -> Option<u64> {
    log_id.map(|log_id| log_id.index)
}

fn next_index(log_id: Option<LogId>) -> u64 {
    log_id.map_or(0, |log_id| log_id.index + 1)
}
