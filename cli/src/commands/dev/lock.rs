//! One `holm dev up` or `down` at a time in a directory: a lock the kernel lets go of with the process, however
//! that ends. Daemons do not inherit it.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::Error;

const FILE: &str = "dev.lock";

/// Held until it is dropped.
pub struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Takes the lock of `dir`, which exists.
    ///
    /// # Errors
    /// When another command holds it.
    pub fn take(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(FILE);
        let file = File::create(&path).map_err(Error::file("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Failed {
                detail: format!("another `holm dev up` or `down` is running in {}", dir.display()),
                hint: Some("wait until it has ended".into()),
            }),
            Err(TryLockError::Error(error)) => Err(Error::file("lock", path)(error)),
        }
    }

    /// Removes the file, so that the directory can go.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(Error::file("remove", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let held = Lock::take(dir.path()).unwrap();
        let error = Lock::take(dir.path()).err().unwrap();
        assert!(error.to_string().starts_with("another `holm dev up` or `down` is running in "), "{error}");
        drop(held);
        Lock::take(dir.path()).unwrap().remove().unwrap();
        assert!(!dir.path().join(FILE).exists());
    }
}
