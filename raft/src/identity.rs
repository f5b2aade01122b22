//! Who this node is: `node.json`, beside the store. It also holds lower bounds of what the store must
//! contain, made durable apart from it, so that a store that lost its end, or everything, is noticed
//! before the node votes twice or forgets what it acknowledged. A node id lives and dies with its store.

use std::io;
use std::path::{Path, PathBuf};

use holm_model::command::InitCluster;
use holm_model::{ClusterId, NodeId};
use serde::{Deserialize, Serialize};

use crate::{durable, files};

const FILE: &str = "node.json";
const FORMAT: u32 = 1;
const MACHINE_ID: &str = "/etc/machine-id";

/// What `node.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    format: u32,
    pub cluster: ClusterId,
    pub node: NodeId,
    pub name: String,
    /// The machine it was last started on; none if that could not be told. See [`Self::settle`].
    #[serde(default)]
    pub(crate) machine: Option<String>,
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
    #[error(
        "{} was last used on another machine ({found}; this is {here}). If it was copied, do not start it: two nodes of \
         one id break what the cluster was promised. If it was moved, and runs nowhere else any more, start it once with \
         `holmd run --moved`", path.display()
    )]
    Elsewhere { path: PathBuf, found: String, here: String },
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
        Self {
            format: FORMAT,
            cluster,
            node,
            name,
            machine: machine_id(),
            bootstrap,
            bounds: Bounds::default(),
        }
    }

    /// Reads the identity in `data_dir`.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn load(data_dir: &Path) -> Result<Self, Error> {
        let path = data_dir.join(FILE);
        let bytes = match files::read(&path) {
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

    /// Binds this identity to the machine `here`, if it is not yet, or was `moved` there. A copied data directory
    /// would be a second node of the same id, with a vote and VMs of its own. Answers whether anything changed.
    ///
    /// # Errors
    /// When it is bound to another machine.
    pub(crate) fn settle(
        &mut self,
        data_dir: &Path,
        here: Option<String>,
        moved: bool,
    ) -> Result<bool, Error> {
        let Some(here) = here else {
            tracing::warn!("{MACHINE_ID} has no id: whether this node's data was copied cannot be told");
            return Ok(false);
        };
        match &self.machine {
            Some(found) if *found == here => return Ok(false),
            Some(found) if !moved => {
                return Err(Error::Elsewhere { path: data_dir.to_owned(), found: found.clone(), here });
            }
            Some(_) => tracing::info!(machine = here, "the node has moved to this machine"),
            None => {}
        }
        self.machine = Some(here);
        Ok(true)
    }

    /// Whether `data_dir` already holds a node.
    pub fn exists(data_dir: &Path) -> bool {
        files::exists(data_dir.join(FILE)).unwrap_or(false)
    }

    /// Writes it, durably.
    pub(crate) fn save(&self, data_dir: &Path) -> Result<(), Error> {
        let path = data_dir.join(FILE);
        let bytes = serde_json::to_vec_pretty(self).expect("plain data always encodes into memory");
        durable::replace(&path, &bytes).map_err(|source| Error::Write(path, source))
    }
}

/// This machine, or container; none where nothing names it.
pub(crate) fn machine_id() -> Option<String> {
    let id = String::from_utf8(files::read(MACHINE_ID).ok()?).ok()?;
    let id = id.trim();
    // systemd writes the word while a machine boots for the first time.
    (!id.is_empty() && id != "uninitialized").then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn it_is_used_on_one_machine_unless_it_was_moved() {
        let dir = Path::new("/data");
        let here = |name: &str| Some(name.to_owned());
        let mut identity = Identity { machine: None, ..identity() };
        assert!(!identity.settle(dir, None, false).unwrap());
        assert!(identity.settle(dir, here("a"), false).unwrap(), "bound where it is first started");
        assert!(!identity.settle(dir, here("a"), false).unwrap());
        assert!(!identity.settle(dir, here("a"), true).unwrap());
        let error = identity.settle(dir, here("b"), false).unwrap_err().to_string();
        assert!(error.contains("/data was last used on another machine (a; this is b)"), "{error}");
        assert!(error.contains("holmd run --moved"), "{error}");
        assert!(!identity.settle(dir, None, false).unwrap(), "nothing to compare with");
        assert!(identity.settle(dir, here("b"), true).unwrap());
        assert!(identity.settle(dir, here("a"), false).is_err(), "where it came from");
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
