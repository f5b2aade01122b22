//! Getting an image from a peer: resumable, because images are large and links break; verified as a whole,
//! because nothing else says that the parts fit together.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use sha2::{Digest, Sha256};

use super::{Error, ImageStore, Sink, Stored, blocking, check_name, hex, io_error};
use crate::disk_floor;

impl ImageStore {
    /// Gets an image from elsewhere. `fetch(offset)` gives its bytes from `offset` on; `progress` hears how
    /// many are here. A pull that broke goes on where it stopped; bytes that do not match, or of which there
    /// is no room for the rest, are thrown away.
    /// Two pulls of one image at a time are for the caller to prevent.
    pub async fn pull<F, R, S, E>(
        &self,
        sha256: &str,
        size_bytes: u64,
        fetch: F,
        progress: impl FnMut(u64),
    ) -> Result<Stored, Error>
    where
        F: FnMut(u64) -> R,
        R: Future<Output = Result<S, E>>,
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        check_name(sha256)?;
        let stored = Stored { sha256: sha256.to_owned(), size_bytes };
        if self.contains(sha256) {
            return Ok(stored);
        }
        let path = self.partial(sha256);
        let pulled = self.pull_to(&path, stored, fetch, progress).await;
        if let Err(Error::NoSpace(_)) = pulled {
            let _ = std::fs::remove_file(&path);
        }
        pulled
    }

    async fn pull_to<F, R, S, E>(
        &self,
        path: &Path,
        stored: Stored,
        mut fetch: F,
        mut progress: impl FnMut(u64),
    ) -> Result<Stored, Error>
    where
        F: FnMut(u64) -> R,
        R: Future<Output = Result<S, E>>,
        S: Stream<Item = Result<Bytes, E>> + Unpin,
        E: std::fmt::Display,
    {
        let size_bytes = stored.size_bytes;
        let mut sink = resume(path, size_bytes).await?;
        disk_floor::admit(path, size_bytes - sink.size_bytes)?;
        progress(sink.size_bytes);
        if sink.size_bytes < size_bytes {
            let broken = |at_bytes, why: String| Error::Transfer { at_bytes, why };
            let mut stream =
                fetch(sink.size_bytes).await.map_err(|e| broken(sink.size_bytes, e.to_string()))?;
            while sink.size_bytes < size_bytes {
                let at = sink.size_bytes;
                let chunk = match stream.next().await {
                    Some(chunk) => chunk.map_err(|e| broken(at, e.to_string()))?,
                    None => {
                        return Err(broken(
                            at,
                            format!("the sender stopped {} bytes early", size_bytes - at),
                        ));
                    }
                };
                if at + chunk.len() as u64 > size_bytes {
                    let _ = std::fs::remove_file(path);
                    let got_bytes = at + chunk.len() as u64;
                    return Err(Error::WrongSize { expected_bytes: size_bytes, got_bytes });
                }
                sink = sink.append(chunk, path).await?;
                progress(sink.size_bytes);
            }
        }
        let got = hex(sink.hash);
        if got != stored.sha256 {
            let _ = std::fs::remove_file(path);
            return Err(Error::WrongChecksum { expected: stored.sha256, got });
        }
        let (store, file) = (self.clone(), sink.file);
        let from = path.to_owned();
        blocking(path, move || store.publish(file, &from, &stored.sha256).map(|()| stored)).await
    }
}

/// Opens what was pulled before and hashes it again: only the bytes on disk count.
async fn resume(path: &Path, size_bytes: u64) -> Result<Sink, Error> {
    let owned = path.to_owned();
    blocking(path, move || {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&owned)
            .map_err(io_error("cannot open", &owned))?;
        let sink = hash_of(&mut file).map_err(io_error("cannot read", &owned))?;
        if sink.1 <= size_bytes {
            return Ok(Sink { file, hash: sink.0, size_bytes: sink.1 });
        }
        // Longer than the image can be: begin again.
        file.set_len(0)
            .and_then(|()| io::Seek::rewind(&mut file))
            .map_err(io_error("cannot empty", &owned))?;
        Ok(Sink { file, hash: Sha256::new(), size_bytes: 0 })
    })
    .await
}

/// Digest and length of a file; leaves it at its end.
fn hash_of(file: &mut File) -> io::Result<(Sha256, u64)> {
    let (mut hash, mut len) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((hash, len)),
            n => {
                hash.update(&buffer[..n]);
                len += n as u64;
            }
        }
    }
}
