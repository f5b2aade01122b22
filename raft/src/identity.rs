//! Who this node is: `node.json`, beside the store. It also holds lower bounds of what the store must
//! contain, made durable apart from it, so that a store that lost its end, or everything, is noticed
//! before the node votes twice or forgets what it acknowledged. A node id lives and dies with its store.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use holm_model::command::InitCluster;
use holm_model::{ClusterId, NodeId};
use serde::{Deserialize, Serialize};

use crate::durable;

const FILE: &str = "node.json";
const FORMAT: u32 = 1;

/// What `node.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    format: u32,
    pub cluster: ClusterId,
    pub node: NodeId,
    pub name: String,
    /// On the first node: what its first start proposes. Kept, so that a start cut short is repeated.
    pub bootstrap: Option<InitCluster>,
    /// What the store must at least contain.
    pub bounds: Bounds,
}

/// Lower bounds of the store's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Term and candidate of a vote that was made durable.
    pub vote: (u64, u64),
    /// A log index that was made durable here and committed.
    pub log_index: u64,
}

/// Why there is no identity, or no use of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
    #[error("{} is damaged; {REJOIN}", .0.display())]
    Parse(PathBuf, #[source] serde_json::Error),
    #[error("{} has format {found}, this binary knows {FORMAT}: install the version that wrote it", path.display())]
    Format { path: PathBuf, found: u32 },
    #[error("there is no node in {}: run `holmd init` for a new cluster, or `holmd join` for an existing one", .0.display())]
    Missing(PathBuf),
    #[error("there is already a node in {}: start it with `holmd run`, or choose another data directory", .0.display())]
    Exists(PathBuf),
    #[error("{field}: {message}")]
    Invalid { field: &'static str, message: String },
    #[error(transparent)]
    Store(#[from] crate::store::Error),
    #[error(transparent)]
    Snapshot(#[from] crate::snapshot::Error),
}

/// What to do when a node's own data cannot be trusted any more.
pub(crate) const REJOIN: &str = "this node must not start from it, as it could break promises it made to the \
     cluster. To come back as a new member: remove this node with `holm node remove`, move the data directory away, and run \
     `holmd join`";

/// What to do with a data directory that has parts of a node, but no `node.json`.
pub(crate) const HELD_A_NODE: &str = "it held a node once. Move it away, or choose another data directory";

impl Identity {
    pub(crate) fn new(
        cluster: ClusterId,
        node: NodeId,
        name: String,
        bootstrap: Option<InitCluster>,
    ) -> Self {
        Self { format: FORMAT, cluster, node, name, bootstrap, bounds: Bounds::default() }
    }

    /// Reads the identity in `data_dir`.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn load(data_dir: &Path) -> Result<Self, Error> {
        let path = data_dir.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::Missing(data_dir.to_owned()));
            }
            Err(error) => return Err(Error::Read(path, error)),
        };
        let identity: Self =
            serde_json::from_slice(&bytes).map_err(|source| Error::Parse(path.clone(), source))?;
        if identity.format > FORMAT {
            return Err(Error::Format { path, found: identity.format });
        }
        Ok(identity)
    }

    /// Whether `data_dir` already holds a node.
    pub(crate) fn exists(data_dir: &Path) -> bool {
        data_dir.join(FILE).exists()
    }

    /// Writes it, durably.
    pub(crate) fn save(&self, data_dir: &Path) -> Result<(), Error> {
        let path = data_dir.join(FILE);
        let bytes = serde_json::to_vec_pretty(self).expect("plain data always encodes into memory");
        durable::replace(&path, &bytes).map_err(|source| Error::Write(path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity::new(ClusterId(uuid::Uuid::from_u128(7)), NodeId(3), "c".to_owned(), None)
    }

    #[test]
    fn what_was_saved_is_read() {
        let dir = tempfile::tempdir().unwrap();
        identity().save(dir.path()).unwrap();
        assert_eq!(Identity::load(dir.path()).unwrap(), identity());
    }

    #[test]
    fn a_missing_identity_says_how_to_get_one() {
        let dir = tempfile::tempdir().unwrap();
        let error = Identity::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("holmd init") && error.contains("holmd join"), "{error}");
    }

    #[test]
    fn a_damaged_identity_says_how_to_rejoin() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), b"{\"format\":1,\"clus").unwrap();
        let error = Identity::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("damaged") && error.contains("holmd join"), "{error}");
    }

    #[test]
    fn an_identity_of_a_later_format_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        Identity { format: 2, ..identity() }.save(dir.path()).unwrap();
        assert!(matches!(Identity::load(dir.path()), Err(Error::Format { found: 2, .. })));
    }
}
