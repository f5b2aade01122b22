//! What a simulated host must be able to do, and what it is told.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use holm_model::State;
use tokio::io::{AsyncRead, AsyncWrite};

pub use crate::store::trees::Key;

/// One node's host. Every call comes from a thread that entered it.
pub trait Host: Send + Sync {
    /// The process has ended itself; what still runs of it must reach nobody.
    fn stopped(&self, reason: &str);
    fn event(&self, event: Event<'_>);

    /// How long the next fsync of the store takes.
    fn fsync_time(&self) -> Duration;
    /// Whether there is a store in `dir`.
    fn has_store(&self, dir: &Path) -> bool;
    /// The store in `dir`, new if there is none.
    ///
    /// # Errors
    /// When its content cannot be read.
    fn open_store(&self, dir: &Path) -> io::Result<Arc<dyn Store>>;

    /// # Errors
    /// As files have them; so below.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Makes a file, or empties it.
    fn create(&self, path: &Path) -> io::Result<()>;
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Of a file its content, of a directory the names in it.
    fn sync(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Of a file, or of a directory with all it holds.
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    fn exists(&self, path: &Path) -> bool;

    fn connect(&self, addr: &str) -> BoxFuture<'static, io::Result<Box<dyn Io>>>;
    fn listen(&self, addr: SocketAddr) -> io::Result<Box<dyn Accept>>;
}

/// What the trees of a store do.
pub trait Store: Send + Sync {
    /// # Errors
    /// As a disk has them; so below.
    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>>;
    fn put(&self, name: &str, value: &[u8]) -> io::Result<()>;
    /// All or none.
    fn write(&self, changes: &[(Key, Option<&[u8]>)]) -> io::Result<()>;
    fn range(&self, range: Range<Key>) -> io::Result<Vec<(Key, Vec<u8>)>>;
    fn fsync(&self) -> io::Result<()>;
    /// A value that is too large for an fsync to cover.
    fn blob(&self) -> Option<PathBuf>;
}

/// A connection.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Where connections arrive.
pub trait Accept: Send + Sync {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Io>>>;
    fn local_addr(&self) -> SocketAddr;
}

/// A place in the log: openraft has one leader for every term and node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub term: u64,
    pub leader: u64,
    pub index: u64,
}

/// What the member on this host did. Entries are as the store has them.
pub enum Event<'a> {
    Appended { at: Position, entry: &'a [u8] },
    Truncated { after: Option<Position> },
    Applied { at: Position, entry: &'a [u8], state: &'a State },
}

/// What unwinds when the process has ended itself.
pub struct Stopped;
