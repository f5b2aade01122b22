//! Snapshot files. One is in force; a new one replaces it only when it is complete and durable, and every
//! use verifies its checksum first, whether it came from this disk or from a peer.
//!
//! ```text
//! magic (8) │ header length, big endian (4) │ header │ state │ SHA-256 of all before (32)
//! ```
//! The header is MessagePack with named fields, the state is [`holm_model::snapshot`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use holm_model::{ClusterId, State};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::guarded::Guarded;
use crate::identity::{HELD_A_NODE, REJOIN};
use crate::types::{LogId, Membership};
use crate::{durable, files};

const DIR: &str = "snapshot";
const FILE: &str = "current.snap";
const MAGIC: &[u8; 8] = b"HOLMSNAP";
const FORMAT: u32 = 1;
const LENGTH_BYTES: usize = 4;
const CHECKSUM_BYTES: usize = 32;

/// Where in the log a snapshot stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    format: u32,
    pub(crate) last_log_id: Option<LogId>,
    pub(crate) membership: Membership,
}

/// A snapshot that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("not a snapshot, or cut short")]
    Shape,
    #[error("the checksum does not match")]
    Checksum,
    #[error("snapshot file format {0}, this binary knows {FORMAT}: install the version that wrote it")]
    Format(u32),
    #[error("the header cannot be decoded")]
    Header(#[source] rmp_serde::decode::Error),
    #[error(transparent)]
    State(#[from] holm_model::snapshot::Error),
    #[error("the snapshot {} is damaged ({source}); {REJOIN}", path.display())]
    Damaged { path: PathBuf, source: Box<Error> },
    #[error("the snapshot {} belongs to cluster {cluster}, not to that of node.json; {REJOIN}", path.display())]
    Stranger { path: PathBuf, cluster: ClusterId },
    #[error("{} has a snapshot but no node.json: {HELD_A_NODE}", .0.display())]
    Orphan(PathBuf),
    #[error("the log was purged up to {purged}, but the snapshot reaches {found} only; {REJOIN}")]
    Behind { purged: u64, found: u64 },
    #[error("cannot read or write {}", .0.display())]
    Io(PathBuf, #[source] io::Error),
}

/// The bytes of a snapshot.
pub(crate) fn encode(last_log_id: Option<LogId>, membership: &Membership, state: &State) -> Bytes {
    let header = Header { format: FORMAT, last_log_id, membership: membership.clone() };
    let header = rmp_serde::to_vec_named(&header).expect("plain data always encodes into memory");
    let length = u32::try_from(header.len()).expect("a membership is far below 4 GiB");
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&holm_model::snapshot::encode(state));
    let checksum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    bytes.into()
}

/// Verifies the checksum and splits header from state.
fn split(bytes: &[u8]) -> Result<(Header, &[u8]), Error> {
    let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(Error::Shape)?;
    let rest = content.strip_prefix(MAGIC).ok_or(Error::Shape)?;
    if Sha256::digest(content).as_slice() != checksum {
        return Err(Error::Checksum);
    }
    let (length, rest) = rest.split_first_chunk::<LENGTH_BYTES>().ok_or(Error::Shape)?;
    let (header, state) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or(Error::Shape)?;
    let header: Header = rmp_serde::from_slice(header).map_err(Error::Header)?;
    if header.format > FORMAT {
        return Err(Error::Format(header.format));
    }
    Ok((header, state))
}

/// The header alone, after verifying the whole.
pub(crate) fn header(bytes: &[u8]) -> Result<Header, Error> {
    split(bytes).map(|(header, _)| header)
}

/// Header and state, verified.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Header, State), Error> {
    let (header, state) = split(bytes)?;
    Ok((header, holm_model::snapshot::decode(state)?))
}

/// The cluster `state` belongs to, if it is another than `cluster`.
pub(crate) fn stranger(state: &State, cluster: ClusterId) -> Option<ClusterId> {
    state.cluster.as_ref().map(|found| found.id).filter(|found| *found != cluster)
}

/// Refuses a snapshot where a new node is to be made: its first start would take it for its own.
pub(crate) fn refuse_leftover(data_dir: &Path) -> Result<(), Error> {
    let path = data_dir.join(DIR).join(FILE);
    match files::exists(&path) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Error::Orphan(data_dir.to_owned())),
        Err(error) => Err(Error::Io(path, error)),
    }
}

/// The snapshot in force. Clones share it.
#[derive(Clone, Debug)]
pub struct File {
    path: PathBuf,
    in_force: Arc<Guarded<InForce>>,
}

/// Held while writing: a snapshot that was begun earlier, and one received meanwhile, may end in any order.
#[derive(Debug, Default)]
struct InForce {
    last_log_id: Option<LogId>,
    closed: bool,
}

impl File {
    /// In `data_dir`, whose directory for snapshots is made if need be.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(data_dir: &Path) -> Result<Self, Error> {
        let dir = data_dir.join(DIR);
        let io = |source| Error::Io(dir.clone(), source);
        if !files::exists(&dir).map_err(io)? {
            files::create_dir_all(&dir).map_err(io)?;
            durable::sync_parent(&dir).map_err(io)?;
        }
        Ok(Self { path: dir.join(FILE), in_force: Arc::default() })
    }

    /// The snapshot as it is; None before the first.
    pub(crate) fn read(&self) -> Result<Option<Bytes>, Error> {
        match files::read(&self.path) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::Io(self.path.clone(), error)),
        }
    }

    /// The snapshot, verified to be one of `cluster`; None before the first.
    pub(crate) fn load(&self, cluster: ClusterId) -> Result<Option<(Header, State)>, Error> {
        let Some(bytes) = self.read()? else { return Ok(None) };
        let (header, state) = decode(&bytes).map_err(|error| self.damaged(error))?;
        if let Some(cluster) = stranger(&state, cluster) {
            return Err(Error::Stranger { path: self.path.clone(), cluster });
        }
        self.in_force.lock().last_log_id = header.last_log_id;
        Ok(Some((header, state)))
    }

    /// Puts a snapshot in force, unless one that reaches further is. On failure the one before stays.
    pub(crate) fn replace(&self, last_log_id: Option<LogId>, bytes: &[u8]) -> Result<(), Error> {
        let mut in_force = self.in_force.lock();
        let io = |error| Error::Io(self.path.clone(), error);
        if in_force.closed {
            return Err(io(io::Error::new(io::ErrorKind::BrokenPipe, "the node has stopped")));
        }
        if in_force.last_log_id > last_log_id {
            return Ok(());
        }
        durable::replace(&self.path, bytes).map_err(io)?;
        in_force.last_log_id = last_log_id;
        Ok(())
    }

    /// Nothing is written from now on.
    pub(crate) fn close(&self) {
        self.in_force.lock().closed = true;
    }

    pub(crate) fn damaged(&self, source: Error) -> Error {
        Error::Damaged { path: self.path.clone(), source: Box::new(source) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn sample() -> Bytes {
        encode(None, &Membership::default(), &State::default())
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let (header, state) = decode(&sample()).unwrap();
        assert_eq!(header.last_log_id, None);
        assert_eq!(state, State::default());
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let sample = sample();
        for at in 0..sample.len() {
            let mut bytes = sample.to_vec();
            bytes[at] ^= 1;
            assert!(decode(&bytes).is_err(), "byte {at}");
        }
    }

    #[test]
    fn every_truncation_is_noticed() {
        let sample = sample();
        for length in 0..sample.len() {
            assert!(decode(&sample[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_failed_replacement_keeps_the_file_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::open(dir.path()).unwrap();
        file.replace(None, b"old").unwrap();
        // A directory in the way of the temporary file: nothing can be written.
        fs::create_dir(file.path.with_extension("tmp")).unwrap();
        assert!(file.replace(None, b"new").is_err());
        assert_eq!(file.read().unwrap().unwrap(), &b"old"[..]);
    }

    #[test]
    fn an_older_snapshot_never_replaces_a_newer_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::open(dir.path()).unwrap();
        let log_id = |index| Some(openraft::testing::log_id::<crate::types::TypeConfig>(1, 1, index));
        file.replace(log_id(9), b"newer").unwrap();
        file.clone().replace(log_id(5), b"older").unwrap();
        assert_eq!(file.read().unwrap().unwrap(), &b"newer"[..]);
    }

    #[test]
    fn a_stopped_node_writes_no_snapshot() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::open(dir.path()).unwrap();
        file.clone().close();
        assert!(file.replace(None, b"late").is_err());
        assert!(file.read().unwrap().is_none());
    }
}
