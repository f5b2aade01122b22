//! The images of one node, each a file named by the SHA-256 of its bytes. A file appears under its name
//! only when it is whole, verified and on disk; it never changes afterwards.
//!
//! ```text
//! <dir>/<sha256>            a verified image, mode 0444
//! <dir>/<sha256>.partial    a pull that goes on where it stopped
//! <dir>/upload-<n>.tmp      an upload under way; removed at the next open
//! ```

mod pull;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::disk_floor::{self, Shortage};
use crate::durable;

/// The store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ImageStore {
    dir: Arc<PathBuf>,
    uploads: Arc<AtomicU64>,
}

/// An image that is there, whole and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Lower-case hex.
    pub sha256: String,
    pub size_bytes: u64,
}

/// An image in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub sha256: String,
    pub size_bytes: u64,
    /// How long ago its last byte came.
    pub age: Duration,
}

/// Why an image is not stored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is no SHA-256: 64 lower-case hexadecimal digits are needed")]
    NotSha256(String),
    #[error("the image has {got_bytes} bytes where {expected_bytes} were announced: send it again, whole")]
    WrongSize { expected_bytes: u64, got_bytes: u64 },
    #[error("the image's SHA-256 is {got} where {expected} was announced: check the file and send it again")]
    WrongChecksum { expected: String, got: String },
    #[error("the image is empty")]
    Empty,
    #[error(transparent)]
    NoSpace(#[from] Shortage),
    #[error("image {0} is not on this node")]
    NotHere(String),
    /// The peer stopped sending; the next pull goes on from here.
    #[error("the transfer broke after {at_bytes} bytes: {why}")]
    Transfer { at_bytes: u64, why: String },
    #[error("{what} {}", path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::NoSpace(Shortage::found(path.parent().unwrap_or(&path)))
        }
        _ => Error::Io { what, path, source },
    }
}

impl ImageStore {
    /// Opens the store at `dir`, making it where it is missing; removes uploads that a crash cut short.
    pub fn open(dir: PathBuf) -> Result<Self, Error> {
        std::fs::create_dir_all(&dir).map_err(io_error("cannot make", &dir))?;
        for entry in std::fs::read_dir(&dir).map_err(io_error("cannot list", &dir))?.flatten() {
            if entry.file_name().to_string_lossy().ends_with(".tmp") {
                let path = entry.path();
                std::fs::remove_file(&path).map_err(io_error("cannot remove", &path))?;
            }
        }
        Ok(Self { dir: Arc::new(dir), uploads: Arc::default() })
    }

    /// Where the image lies, if it is there, whole.
    pub fn path(&self, sha256: &str) -> Option<PathBuf> {
        is_sha256(sha256).then(|| self.file(sha256)).filter(|path| path.is_file())
    }

    /// Whether it is there, whole.
    pub fn contains(&self, sha256: &str) -> bool {
        self.path(sha256).is_some()
    }

    fn file(&self, sha256: &str) -> PathBuf {
        self.dir.join(sha256)
    }

    /// Every image that is whole, by name. A directory that cannot be read holds none.
    pub fn list(&self) -> Vec<Held> {
        let mut held: Vec<Held> = self
            .entries()
            .filter_map(|entry| {
                let sha256 = entry.file_name().into_string().ok().filter(|name| is_sha256(name))?;
                let meta = entry.metadata().ok()?;
                let age = meta.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
                Some(Held { sha256, size_bytes: meta.len(), age: age.unwrap_or_default() })
            })
            .collect();
        held.sort_by(|a, b| a.sha256.cmp(&b.sha256));
        held
    }

    /// What all files here take, unfinished ones included.
    pub fn used_bytes(&self) -> u64 {
        self.entries().filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
    }

    fn entries(&self) -> impl Iterator<Item = std::fs::DirEntry> {
        std::fs::read_dir(&*self.dir).into_iter().flatten().flatten()
    }

    /// Removes an image and what was pulled of it; one that is not there is no error. A VM keeps the
    /// kernel it was started with, by a link of its own.
    pub fn remove(&self, sha256: &str) -> Result<(), Error> {
        check_name(sha256)?;
        for path in [self.file(sha256), self.partial(sha256)] {
            match std::fs::remove_file(&path) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(io_error("cannot remove", &path)(e)),
            }
        }
        durable::sync_parent(&self.file(sha256)).map_err(io_error("cannot sync", &self.dir))
    }

    /// Begins an upload, unless there is no room for any.
    pub async fn begin(&self) -> Result<Upload, Error> {
        let n = self.uploads.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!("upload-{n}.tmp"));
        let store = self.clone();
        // A disk that hangs holds up whoever uploads, and nobody else.
        blocking(&self.dir, move || {
            disk_floor::admit(&store.dir, 0)?;
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&path)
                .map_err(io_error("cannot make", &path))?;
            let sink = Sink { file, hash: Sha256::new(), size_bytes: 0 };
            Ok(Upload { store, sink: Some(sink), temporary: Temporary(path) })
        })
        .await
    }

    fn partial(&self, sha256: &str) -> PathBuf {
        self.dir.join(format!("{sha256}.partial"))
    }

    /// Makes a whole, verified file durable under its name.
    fn publish(&self, file: File, from: &Path, sha256: &str) -> Result<(), Error> {
        file.set_permissions(std::fs::Permissions::from_mode(0o444))
            .and_then(|()| file.sync_all())
            .map_err(io_error("cannot sync", from))?;
        let path = self.file(sha256);
        std::fs::rename(from, &path).map_err(io_error("cannot name", &path))?;
        durable::sync_parent(&path).map_err(io_error("cannot sync", &self.dir))
    }
}

/// An image on its way in. Dropped before `finish`, it leaves nothing.
pub struct Upload {
    store: ImageStore,
    /// None once a write failed or was cut short.
    sink: Option<Sink>,
    temporary: Temporary,
}

impl Upload {
    /// Takes the next bytes.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        let path = &self.temporary.0;
        let sink = self.sink.take().ok_or_else(|| io_error("an earlier write failed on", path)(broken()))?;
        self.sink = Some(sink.append(bytes, path).await?);
        Ok(())
    }

    /// Compares with the digest that was announced, if one was, and stores the image.
    pub async fn finish(self, expected_sha256: Option<&str>) -> Result<Stored, Error> {
        let Upload { store, sink, temporary } = self;
        let Sink { file, hash, size_bytes } =
            sink.ok_or_else(|| io_error("an earlier write failed on", &temporary.0)(broken()))?;
        let sha256 = hex(hash);
        if size_bytes == 0 {
            return Err(Error::Empty);
        }
        if let Some(expected) = expected_sha256 {
            check_name(expected)?;
            if expected != sha256 {
                return Err(Error::WrongChecksum { expected: expected.to_owned(), got: sha256 });
            }
        }
        let path = temporary.0.clone();
        blocking(&path, move || {
            // Renamed away from under `temporary`, whose removal then finds nothing.
            store.publish(file, &temporary.0, &sha256)?;
            Ok(Stored { sha256, size_bytes })
        })
        .await
    }
}

fn broken() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

/// A file being written, and the digest of what is in it.
struct Sink {
    file: File,
    hash: Sha256,
    size_bytes: u64,
}

impl Sink {
    async fn append(mut self, bytes: Bytes, path: &Path) -> Result<Self, Error> {
        let owned = path.to_owned();
        blocking(path, move || {
            disk_floor::admit(&owned, bytes.len() as u64)?;
            self.file.write_all(&bytes).map_err(io_error("cannot write", &owned))?;
            self.hash.update(&bytes);
            self.size_bytes += bytes.len() as u64;
            Ok(self)
        })
        .await
    }
}

/// A file that goes with its owner, or soon after.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.0);
        let remove = move || drop(std::fs::remove_file(path));
        match tokio::runtime::Handle::try_current() {
            // Not on a thread that others need: the disk may hang.
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let cut_short = |e: tokio::task::JoinError| io_error("work was cut short on", path)(io::Error::other(e));
    tokio::task::spawn_blocking(work).await.map_err(cut_short)?
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_sha256(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn check_name(sha256: &str) -> Result<(), Error> {
    if is_sha256(sha256) { Ok(()) } else { Err(Error::NotSha256(sha256.to_owned())) }
}
