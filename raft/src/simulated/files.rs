//! `std::fs` as far as [`crate::files`] needs it, on the simulated disk where there is one.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::host;
use super::host::Host;

/// A file, or a directory, open for writing.
pub(crate) enum File {
    Real(fs::File),
    Simulated(Arc<dyn Host>, PathBuf),
}

impl File {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        match super::host() {
            None => fs::File::create(path).map(Self::Real),
            Some(host) => host.create(path).map(|()| Self::Simulated(host, path.to_owned())),
        }
    }

    pub(crate) fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        match super::host() {
            None => fs::File::open(path).map(Self::Real),
            Some(host) => Ok(Self::Simulated(host, path.as_ref().to_owned())),
        }
    }

    pub(crate) fn sync_all(&self) -> io::Result<()> {
        match self {
            Self::Real(file) => file.sync_all(),
            Self::Simulated(host, path) => host.sync(path),
        }
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Real(file) => file.write(bytes),
            Self::Simulated(host, path) => host.append(path, bytes).map(|()| bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// On the simulated disk, or the real one.
macro_rules! on_either {
    ($(fn $name:ident($($argument:ident),+) -> $answer:ty = $method:ident;)+) => {$(
        pub(crate) fn $name($($argument: impl AsRef<Path>),+) -> io::Result<$answer> {
            match super::host() {
                None => fs::$name($($argument),+),
                Some(host) => host::Host::$method(&*host, $($argument.as_ref()),+),
            }
        }
    )+};
}

on_either! {
    fn read(path) -> Vec<u8> = read;
    fn rename(from, to) -> () = rename;
    fn remove_file(path) -> () = remove;
    fn remove_dir_all(path) -> () = remove;
    fn create_dir_all(path) -> () = create_dir;
}

pub(crate) fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    match super::host() {
        None => fs::exists(path),
        Some(host) => Ok(host.exists(path.as_ref())),
    }
}
