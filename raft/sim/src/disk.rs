//! One host's disk: files with names, and stores of trees. What was written counts for the running process at once; for
//! the next one after a fsync. In between, power that fails leaves any of the states in which a disk may be: names old or
//! new, content torn, of a store some of its last writes.
//!
//! A store loses only its end, a write at a time: what sled promises, which the test `power_loss` holds against real
//! file systems. What was measured of sled too: a large value is in no fsync.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use holm_raft::simulated::host::Key;

use crate::rng::Rng;

/// A value longer than this is not covered by an fsync.
const LARGE: usize = 4_096;

#[derive(Clone, Default)]
struct Inode {
    content: Vec<u8>,
    synced: Vec<u8>,
}

/// Trees of log parts and of named values.
#[derive(Clone, Default)]
struct Content {
    log: BTreeMap<Key, Vec<u8>>,
    meta: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone)]
enum Write {
    Log(Vec<(Key, Option<Vec<u8>>)>),
    Meta(String, Vec<u8>),
}

impl Content {
    fn take(&mut self, write: &Write) {
        match write {
            Write::Meta(name, value) => drop(self.meta.insert(name.clone(), value.clone())),
            Write::Log(changes) => {
                for (key, value) in changes {
                    match value {
                        Some(value) => drop(self.log.insert(*key, value.clone())),
                        None => drop(self.log.remove(key)),
                    }
                }
            }
        }
    }
}

#[derive(Clone, Default)]
struct Trees {
    now: Content,
    durable: Content,
    /// From one to the other.
    journal: Vec<Write>,
}

/// How the disk ends what a process did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The kernel keeps what it was given.
    Process,
    Power,
}

#[derive(Clone)]
pub(crate) struct Disk {
    rng: Rng,
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    dirs: BTreeSet<PathBuf>,
    stores: BTreeMap<PathBuf, Trees>,
    /// The next fsync of a store fails.
    pub(crate) fails_fsync: bool,
    /// The next write to a store finds no room.
    pub(crate) is_full: bool,
}

impl Disk {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            rng,
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            dirs: BTreeSet::new(),
            stores: BTreeMap::new(),
            fails_fsync: false,
            is_full: false,
        }
    }

    fn inode(&mut self, path: &Path) -> io::Result<&mut Inode> {
        let at = *self.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(&mut self.inodes[at])
    }

    pub(crate) fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.inode(path).map(|inode| inode.content.clone())
    }

    pub(crate) fn create(&mut self, path: &Path) {
        match self.inode(path) {
            Ok(inode) => inode.content.clear(),
            Err(_) => {
                self.names.insert(path.to_owned(), self.inodes.len());
                self.inodes.push(Inode::default());
            }
        }
    }

    pub(crate) fn append(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.inode(path).map(|inode| inode.content.extend_from_slice(bytes))
    }

    pub(crate) fn sync(&mut self, path: &Path) {
        if let Ok(inode) = self.inode(path) {
            return inode.synced.clone_from(&inode.content);
        }
        let here = |name: &Path| name.parent() == Some(path);
        self.durable_names.retain(|name, _| !here(name));
        let names = self.names.iter().filter(|(name, _)| here(name));
        self.durable_names.extend(names.map(|(name, inode)| (name.clone(), *inode)));
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        self.names.insert(to.to_owned(), inode);
        Ok(())
    }

    pub(crate) fn remove(&mut self, path: &Path) {
        self.names.retain(|name, _| !name.starts_with(path));
        self.dirs.retain(|dir| !dir.starts_with(path));
        self.stores.retain(|dir, _| !dir.starts_with(path));
    }

    pub(crate) fn create_dir(&mut self, path: &Path) {
        self.dirs.extend(path.ancestors().map(Path::to_owned));
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.names.contains_key(path) || self.dirs.contains(path) || self.stores.contains_key(path)
    }

    pub(crate) fn has_store(&self, dir: &Path) -> bool {
        self.stores.contains_key(dir)
    }

    pub(crate) fn open_store(&mut self, dir: &Path) {
        self.stores.entry(dir.to_owned()).or_default();
    }

    fn store(&mut self, dir: &Path) -> io::Result<&mut Trees> {
        Ok(self.stores.get_mut(dir).ok_or(io::ErrorKind::NotFound)?)
    }

    pub(crate) fn get(&mut self, dir: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.store(dir)?.now.meta.get(name).cloned())
    }

    pub(crate) fn range(&mut self, dir: &Path, range: Range<Key>) -> io::Result<Vec<(Key, Vec<u8>)>> {
        let found = self.store(dir)?.now.log.range(range);
        Ok(found.map(|(key, value)| (*key, value.clone())).collect())
    }

    pub(crate) fn put(&mut self, dir: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        self.write(dir, Write::Meta(name.to_owned(), value.to_owned()))
    }

    pub(crate) fn write_log(&mut self, dir: &Path, changes: &[(Key, Option<&[u8]>)]) -> io::Result<()> {
        let owned = changes.iter().map(|(key, value)| (*key, value.map(<[u8]>::to_vec)));
        self.write(dir, Write::Log(owned.collect()))
    }

    fn write(&mut self, dir: &Path, write: Write) -> io::Result<()> {
        if std::mem::take(&mut self.is_full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let trees = self.store(dir)?;
        trees.now.take(&write);
        trees.journal.push(write);
        Ok(())
    }

    pub(crate) fn fsync(&mut self, dir: &Path) -> io::Result<()> {
        if std::mem::take(&mut self.fails_fsync) {
            return Err(io::Error::other("the simulated disk took nothing"));
        }
        let trees = self.store(dir)?;
        for write in trees.journal.drain(..) {
            trees.durable.take(&write);
        }
        Ok(())
    }

    pub(crate) fn has_blob(&mut self, dir: &Path) -> bool {
        self.store(dir).is_ok_and(|trees| {
            trees.journal.iter().any(|write| match write {
                Write::Log(changes) => changes.iter().any(|(_, value)| is_large(value.as_deref())),
                Write::Meta(_, value) => is_large(Some(value)),
            })
        })
    }

    /// The log records that are whole, as the next process finds them.
    pub(crate) fn records(&self, dir: &Path) -> Vec<(u64, Vec<u8>)> {
        const LENGTH_BYTES: usize = 4;
        let mut records: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for (key, part) in self.stores.get(dir).iter().flat_map(|trees| &trees.now.log) {
            let (index, _) = key.split_first_chunk().expect("a key begins with its index");
            records.entry(u64::from_be_bytes(*index)).or_default().extend_from_slice(part);
        }
        records
            .into_iter()
            .map(|(index, bytes)| (index, bytes[LENGTH_BYTES.min(bytes.len())..].to_vec()))
            .collect()
    }

    /// What the next process finds.
    pub(crate) fn end(&mut self, end: End) {
        let Self { rng, .. } = self;
        for trees in self.stores.values_mut() {
            // sled keeps its last writes to itself for a while: they end with the process.
            let kept = rng.index(trees.journal.len() + 1);
            for write in &trees.journal[..kept] {
                trees.durable.take(write);
            }
            trees.journal.clear();
            if end == End::Power {
                for value in trees.durable.log.values_mut().filter(|value| is_large(Some(value))) {
                    let kept = rng.index(value.len());
                    value.truncate(kept);
                }
            }
            trees.now = trees.durable.clone();
        }
        if end == End::Power {
            self.lose_files();
        }
        self.fails_fsync = false;
        self.is_full = false;
    }

    fn lose_files(&mut self) {
        let Self { rng, names, durable_names, inodes, .. } = self;
        let every: BTreeSet<PathBuf> = names.keys().chain(durable_names.keys()).cloned().collect();
        for path in every {
            let found = if rng.percent(50) { names.get(&path) } else { durable_names.get(&path) };
            match found.copied() {
                Some(inode) => drop(durable_names.insert(path, inode)),
                None => drop(durable_names.remove(&path)),
            }
        }
        *names = durable_names.clone();
        for inode in inodes.iter_mut().filter(|inode| inode.content != inode.synced) {
            match rng.below(3) {
                0 => inode.content.clone_from(&inode.synced),
                1 => inode.content.truncate(rng.index(inode.content.len() + 1)),
                _ => {}
            }
            inode.synced.clone_from(&inode.content);
        }
    }

    /// The store is gone, as after a wrong `rm`.
    pub(crate) fn lose_stores(&mut self) {
        self.stores.clear();
    }
}

fn is_large(value: Option<&[u8]>) -> bool {
    value.is_some_and(|value| value.len() > LARGE)
}
