//! The images of one node, each a file named by the SHA-256 of its bytes. A file appears under its name
//! only when it is whole, verified and on disk; it never changes afterwards.
//!
//! ```text
//! <dir>/<sha256>            a verified image, mode 0444
//! <dir>/<sha256>.partial    a pull that goes on where it stopped
//! <dir>/upload-<n>.tmp      an upload under way; removed at the next open
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use sha2::{Digest, Sha256};

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
    #[error("no space left for the image: delete images or VMs on this node, or enlarge its disk")]
    NoSpace,
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
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::NoSpace,
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

    /// Where the image lies, or would. The name is checked by whoever reads it from a user.
    pub fn path(&self, sha256: &str) -> PathBuf {
        self.dir.join(sha256)
    }

    /// Whether it is there, whole.
    pub fn contains(&self, sha256: &str) -> bool {
        is_sha256(sha256) && self.path(sha256).is_file()
    }

    /// Opens an image for reading.
    pub fn read(&self, sha256: &str) -> Result<File, Error> {
        check_name(sha256)?;
        let path = self.path(sha256);
        File::open(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::NotHere(sha256.to_owned()),
            _ => io_error("cannot open", &path)(e),
        })
    }

    /// Every image that is whole, by name.
    pub fn list(&self) -> Result<Vec<Stored>, Error> {
        let mut stored: Vec<Stored> = std::fs::read_dir(&*self.dir)
            .map_err(io_error("cannot list", &self.dir))?
            .flatten()
            .filter_map(|entry| {
                let sha256 = entry.file_name().into_string().ok().filter(|name| is_sha256(name))?;
                Some(Stored { sha256, size_bytes: entry.metadata().ok()?.len() })
            })
            .collect();
        stored.sort_by(|a, b| a.sha256.cmp(&b.sha256));
        Ok(stored)
    }

    /// What all files here take, unfinished ones included.
    pub fn used_bytes(&self) -> Result<u64, Error> {
        let entries = std::fs::read_dir(&*self.dir).map_err(io_error("cannot list", &self.dir))?;
        Ok(entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum())
    }

    /// Removes an image and what was pulled of it; one that is not there is no error. A VM keeps the
    /// kernel it was started with, by a link of its own.
    pub fn remove(&self, sha256: &str) -> Result<(), Error> {
        check_name(sha256)?;
        for path in [self.path(sha256), self.partial(sha256)] {
            match std::fs::remove_file(&path) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(io_error("cannot remove", &path)(e)),
            }
        }
        durable::sync_parent(&self.path(sha256)).map_err(io_error("cannot sync", &self.dir))
    }

    /// Begins an upload.
    pub fn begin(&self) -> Result<Upload, Error> {
        let n = self.uploads.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!("upload-{n}.tmp"));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(io_error("cannot make", &path))?;
        Ok(Upload {
            store: self.clone(),
            file,
            temporary: Temporary(path),
            hash: Sha256::new(),
            size_bytes: 0,
        })
    }

    /// Gets an image from elsewhere. `fetch(offset)` gives its bytes from `offset` on; `progress` hears how
    /// many are here. A pull that broke goes on where it stopped; bytes that do not match are thrown away.
    pub async fn pull<F, S, E>(
        &self,
        sha256: &str,
        size_bytes: u64,
        mut fetch: F,
        mut progress: impl FnMut(u64),
    ) -> Result<Stored, Error>
    where
        F: FnMut(u64) -> S,
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        check_name(sha256)?;
        if self.contains(sha256) {
            return Ok(Stored { sha256: sha256.to_owned(), size_bytes });
        }
        let path = self.partial(sha256);
        let (mut file, mut hash, mut at) = resume(&path, size_bytes).await?;
        progress(at);
        if at < size_bytes {
            let mut stream = fetch(at);
            while at < size_bytes {
                let chunk = match stream.next().await {
                    Some(Ok(chunk)) => chunk,
                    Some(Err(e)) => return Err(Error::Transfer { at_bytes: at, why: e.to_string() }),
                    None => {
                        let why = format!("the sender stopped {} bytes early", size_bytes - at);
                        return Err(Error::Transfer { at_bytes: at, why });
                    }
                };
                at += chunk.len() as u64;
                if at > size_bytes {
                    let _ = std::fs::remove_file(&path);
                    return Err(Error::WrongSize { expected_bytes: size_bytes, got_bytes: at });
                }
                (file, hash) = append(file, hash, chunk, &path).await?;
                progress(at);
            }
        }
        let got = hex(hash);
        if got != sha256 {
            let _ = std::fs::remove_file(&path);
            return Err(Error::WrongChecksum { expected: sha256.to_owned(), got });
        }
        self.publish(file, &path, sha256)?;
        Ok(Stored { sha256: sha256.to_owned(), size_bytes })
    }

    fn partial(&self, sha256: &str) -> PathBuf {
        self.dir.join(format!("{sha256}.partial"))
    }

    /// Makes a whole, verified file durable under its name.
    fn publish(&self, file: File, from: &Path, sha256: &str) -> Result<(), Error> {
        file.set_permissions(std::fs::Permissions::from_mode(0o444))
            .and_then(|()| file.sync_all())
            .map_err(io_error("cannot sync", from))?;
        let path = self.path(sha256);
        std::fs::rename(from, &path).map_err(io_error("cannot name", &path))?;
        durable::sync_parent(&path).map_err(io_error("cannot sync", &self.dir))
    }
}

/// An image on its way in. Dropped before `finish`, it leaves nothing.
pub struct Upload {
    store: ImageStore,
    file: File,
    temporary: Temporary,
    hash: Sha256,
    size_bytes: u64,
}

impl Upload {
    /// Takes the next bytes. Blocks for the disk.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(io_error("cannot write", &self.temporary.0))?;
        self.hash.update(bytes);
        self.size_bytes += bytes.len() as u64;
        Ok(())
    }

    /// How many bytes came so far.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The file as it is so far, to be checked before `finish`.
    pub fn path(&self) -> &Path {
        &self.temporary.0
    }

    /// Compares with what was announced and stores the image. Blocks for the disk.
    pub fn finish(
        self,
        expected_sha256: Option<&str>,
        expected_size_bytes: Option<u64>,
    ) -> Result<Stored, Error> {
        let (size_bytes, sha256) = (self.size_bytes, hex(self.hash));
        if let Some(expected_bytes) = expected_size_bytes.filter(|expected| *expected != size_bytes) {
            return Err(Error::WrongSize { expected_bytes, got_bytes: size_bytes });
        }
        if size_bytes == 0 {
            return Err(Error::Empty);
        }
        if let Some(expected) = expected_sha256 {
            check_name(expected)?;
            if expected != sha256 {
                return Err(Error::WrongChecksum { expected: expected.to_owned(), got: sha256 });
            }
        }
        // Renamed away from under `temporary`, whose removal then finds nothing.
        self.store.publish(self.file, &self.temporary.0, &sha256)?;
        Ok(Stored { sha256, size_bytes })
    }
}

/// A file that goes with its owner.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens what was pulled before and hashes it again: only the bytes on disk count.
async fn resume(path: &Path, size_bytes: u64) -> Result<(File, Sha256, u64), Error> {
    let owned = path.to_owned();
    let work = move || {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&owned)
            .map_err(io_error("cannot open", &owned))?;
        let mut hash = Sha256::new();
        let mut at = 0;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer).map_err(io_error("cannot read", &owned))? {
                0 => break,
                n => {
                    hash.update(&buffer[..n]);
                    at += n as u64;
                }
            }
        }
        if at > size_bytes {
            file.set_len(0).map_err(io_error("cannot empty", &owned))?;
            io::Seek::rewind(&mut file).map_err(io_error("cannot empty", &owned))?;
            return Ok((file, Sha256::new(), 0));
        }
        Ok((file, hash, at))
    };
    blocking(path, work).await
}

async fn append(file: File, hash: Sha256, chunk: Bytes, path: &Path) -> Result<(File, Sha256), Error> {
    let owned = path.to_owned();
    let work = move || {
        let (mut file, mut hash) = (file, hash);
        file.write_all(&chunk).map_err(io_error("cannot write", &owned))?;
        hash.update(&chunk);
        Ok((file, hash))
    };
    blocking(path, work).await
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
