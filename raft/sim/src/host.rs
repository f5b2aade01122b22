//! One run of a process on one host: what the product asks of its host goes to the simulated disk and network, as long
//! as the process lives. What still moves of one that has ended reaches nothing and nobody.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, poll_fn};
use holm_raft::simulated::host::{Accept, Event, Host, Io, Key, Store};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::check::Check;
use crate::disk::Disk;
use crate::net::{Net, lock};
use crate::rng::Rng;

/// How long an fsync takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speed {
    Fine,
    Slow,
    /// So long that a leader has to let go.
    Hanging,
}

/// What the hosts share with who simulates them.
pub(crate) struct World {
    pub(crate) net: Arc<Mutex<Net>>,
    pub(crate) check: Arc<Mutex<Check>>,
    pub(crate) disks: Vec<Arc<Mutex<Disk>>>,
    pub(crate) speeds: Vec<Arc<Mutex<Speed>>>,
}

/// One process.
pub(crate) struct Process {
    host: usize,
    is_alive: AtomicBool,
    ended_itself: Mutex<Option<String>>,
    net: Arc<Mutex<Net>>,
    check: Arc<Mutex<Check>>,
    disk: Arc<Mutex<Disk>>,
    speed: Arc<Mutex<Speed>>,
    rng: Mutex<Rng>,
    /// For what it hands out.
    this: std::sync::Weak<Self>,
}

impl Process {
    pub(crate) fn new(world: &World, host: usize, rng: Rng) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            host,
            is_alive: AtomicBool::new(true),
            ended_itself: Mutex::default(),
            net: Arc::clone(&world.net),
            check: Arc::clone(&world.check),
            disk: Arc::clone(&world.disks[host]),
            speed: Arc::clone(&world.speeds[host]),
            rng: Mutex::new(rng),
            this: this.clone(),
        })
    }

    /// From here on nothing it does counts.
    pub(crate) fn end(&self) {
        self.is_alive.store(false, Ordering::Relaxed);
    }

    /// Why it ended itself, if it did.
    pub(crate) fn ended_itself(&self) -> Option<String> {
        lock(&self.ended_itself).clone()
    }

    fn is_alive(&self) -> bool {
        self.is_alive.load(Ordering::Relaxed)
    }

    fn alive(&self) -> io::Result<()> {
        if self.is_alive() { Ok(()) } else { Err(io::Error::other("the process has ended")) }
    }

    fn on_disk<T>(&self, work: impl FnOnce(&mut Disk) -> T) -> io::Result<T> {
        self.alive()?;
        Ok(work(&mut lock(&self.disk)))
    }

    fn this(&self) -> Arc<Self> {
        self.this.upgrade().expect("whoever calls holds it")
    }

    fn stream(&self, conn: u64, end: usize) -> Box<dyn Io> {
        Box::new(Stream { process: self.this(), conn, end })
    }
}

impl Host for Process {
    fn stopped(&self, reason: &str) {
        if self.is_alive() {
            self.end();
            *lock(&self.ended_itself) = Some(reason.to_owned());
        }
    }

    fn event(&self, event: Event<'_>) {
        if self.is_alive() {
            lock(&self.check).event(self.host, &event);
        }
    }

    fn fsync_time(&self) -> Duration {
        let speed = *lock(&self.speed);
        let mut rng = lock(&self.rng);
        Duration::from_millis(match speed {
            Speed::Fine => rng.between(0..4),
            Speed::Slow => rng.between(5..150),
            Speed::Hanging => rng.between(2_000..8_000),
        })
    }

    fn has_store(&self, dir: &Path) -> bool {
        lock(&self.disk).has_store(dir)
    }

    fn open_store(&self, dir: &Path) -> io::Result<Arc<dyn Store>> {
        self.on_disk(|disk| disk.open_store(dir))?;
        Ok(Arc::new(Open { process: self.this(), dir: dir.to_owned() }))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.on_disk(|disk| disk.read(path))?
    }

    fn create(&self, path: &Path) -> io::Result<()> {
        self.on_disk(|disk| disk.create(path))
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.on_disk(|disk| disk.append(path, bytes))?
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.on_disk(|disk| disk.sync(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.on_disk(|disk| disk.rename(from, to))?
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.on_disk(|disk| disk.remove(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.on_disk(|disk| disk.create_dir(path))
    }

    fn exists(&self, path: &Path) -> bool {
        lock(&self.disk).exists(path)
    }

    fn connect(&self, addr: &str) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let this = self.this();
        let Ok(addr) = addr.parse() else {
            return async { Err(io::ErrorKind::InvalidInput.into()) }.boxed();
        };
        let dial = lock(&self.net).dial(self.host, addr);
        let connected = async move {
            let conn = poll_fn(|cx| dial.poll(cx)).await?;
            Ok(this.stream(conn, 0))
        };
        connected.boxed()
    }

    fn listen(&self, addr: SocketAddr) -> io::Result<Box<dyn Accept>> {
        self.alive()?;
        lock(&self.net).listen(self.host, addr);
        Ok(Box::new(Acceptor { process: self.this(), addr }))
    }
}

/// A store as a process has it open.
struct Open {
    process: Arc<Process>,
    dir: PathBuf,
}

impl Store for Open {
    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.process.on_disk(|disk| disk.get(&self.dir, name))?
    }

    fn put(&self, name: &str, value: &[u8]) -> io::Result<()> {
        self.process.on_disk(|disk| disk.put(&self.dir, name, value))?
    }

    fn write(&self, changes: &[(Key, Option<&[u8]>)]) -> io::Result<()> {
        self.process.on_disk(|disk| disk.write_log(&self.dir, changes))?
    }

    fn range(&self, range: Range<Key>) -> io::Result<Vec<(Key, Vec<u8>)>> {
        self.process.on_disk(|disk| disk.range(&self.dir, range))?
    }

    fn fsync(&self) -> io::Result<()> {
        self.process.on_disk(|disk| disk.fsync(&self.dir))?
    }

    fn blob(&self) -> Option<PathBuf> {
        lock(&self.process.disk).has_blob(&self.dir).then(|| self.dir.join("blobs"))
    }
}

struct Acceptor {
    process: Arc<Process>,
    addr: SocketAddr,
}

impl Accept for Acceptor {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Io>>> {
        let accepted = lock(&self.process.net).poll_accept(self.addr, cx);
        accepted.map_ok(|conn| self.process.stream(conn, 1))
    }

    fn local_addr(&self) -> SocketAddr {
        self.addr
    }
}

/// One end of a connection.
struct Stream {
    process: Arc<Process>,
    conn: u64,
    end: usize,
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = lock(&self.process.net).poll_read(self.conn, self.end, into.remaining(), cx);
        read.map_ok(|bytes| into.put_slice(&bytes))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written =
            self.process.alive().and_then(|()| lock(&self.process.net).write(self.conn, self.end, bytes));
        Poll::Ready(written.map(|()| bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.process.is_alive() {
            lock(&self.process.net).close(self.conn, self.end);
        }
    }
}
