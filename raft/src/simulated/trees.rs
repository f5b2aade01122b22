//! The trees of the store: sled's, or those of a simulated disk.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::host::Store;
use crate::store::Error;
use crate::store::trees::{self, Key};

pub(crate) enum Trees {
    Real(trees::Trees),
    Simulated(Arc<dyn Store>),
}

impl Trees {
    pub(crate) fn open(dir: &Path) -> Result<Self, Error> {
        match super::host() {
            None => trees::Trees::open(dir).map(Self::Real),
            Some(host) => host.open_store(dir).map(Self::Simulated).map_err(Error::Io),
        }
    }

    pub(crate) fn check_present(dir: &Path) -> Result<(), Error> {
        match super::host() {
            None => trees::Trees::check_present(dir),
            Some(host) if host.has_store(dir) => Ok(()),
            Some(_) => Err(Error::Missing(dir.to_owned())),
        }
    }

    pub(crate) fn has_remains(dir: &Path) -> bool {
        !super::is_on() && trees::Trees::has_remains(dir)
    }

    pub(crate) fn flush(&self) -> io::Result<()> {
        match self {
            Self::Real(trees) => trees.flush(),
            Self::Simulated(_) => Ok(()),
        }
    }

    pub(crate) fn fsync(&self) -> io::Result<()> {
        match self {
            Self::Real(trees) => trees.fsync(),
            Self::Simulated(store) => store.fsync(),
        }
    }

    pub(crate) fn blob(&self) -> io::Result<Option<PathBuf>> {
        match self {
            Self::Real(trees) => trees.blob(),
            Self::Simulated(store) => Ok(store.blob()),
        }
    }

    pub(crate) fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::Real(trees) => trees.get(name),
            Self::Simulated(store) => store.get(name),
        }
    }

    pub(crate) fn put(&self, name: &str, value: &[u8]) -> io::Result<()> {
        match self {
            Self::Real(trees) => trees.put(name, value),
            Self::Simulated(store) => store.put(name, value),
        }
    }

    pub(crate) fn write(&self, changes: &[(Key, Option<&[u8]>)]) -> io::Result<()> {
        match self {
            Self::Real(trees) => trees.write(changes),
            Self::Simulated(store) => store.write(changes),
        }
    }

    pub(crate) fn range(&self, range: Range<Key>) -> impl Iterator<Item = io::Result<(Vec<u8>, Vec<u8>)>> {
        let (real, simulated) = match self {
            Self::Real(trees) => {
                let owned = |(key, value): (_, _)| (to_vec(key), to_vec(value));
                (Some(trees.range(range).map(move |item| item.map(owned))), None)
            }
            Self::Simulated(store) => (None, Some(found(&**store, range))),
        };
        real.into_iter().flatten().chain(simulated.into_iter().flatten())
    }
}

fn to_vec(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    bytes.as_ref().to_vec()
}

fn found(store: &dyn Store, range: Range<Key>) -> Vec<io::Result<(Vec<u8>, Vec<u8>)>> {
    match store.range(range) {
        Ok(found) => found.into_iter().map(|(key, value)| Ok((key.to_vec(), value))).collect(),
        Err(error) => vec![Err(error)],
    }
}
