//! A log of bounded size: the current file and one before it. What cannot be written (disk full) is lost,
//! and the guest does not notice.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

/// Size at which the log rotates.
pub const LIMIT_BYTES: u64 = 1 << 20;

/// An append-only log.
pub struct BoundedLog {
    path: PathBuf,
    file: Option<File>,
    size: u64,
}

impl BoundedLog {
    /// Continues the log at `path`.
    pub fn open(path: PathBuf) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(&path).ok();
        let size = file.as_ref().and_then(|f| f.metadata().ok()).map_or(0, |m| m.len());
        Self { path, file, size }
    }

    /// Appends `bytes`.
    pub fn append(&mut self, bytes: &[u8]) {
        if self.size + bytes.len() as u64 > LIMIT_BYTES {
            self.rotate();
        }
        if let Some(file) = &mut self.file
            && file.write_all(bytes).is_ok()
        {
            self.size += bytes.len() as u64;
        }
    }

    fn rotate(&mut self) {
        // Where the rename fails, truncating keeps the bound.
        let _ = std::fs::rename(&self.path, previous(&self.path));
        self.file = OpenOptions::new().create(true).write(true).truncate(true).open(&self.path).ok();
        self.size = 0;
    }
}

/// Where the part before the current one lies.
pub fn previous(path: &std::path::Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_the_log_within_twice_its_limit_and_loses_the_oldest() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("console.log");
        let mut log = BoundedLog::open(path.clone());
        for i in 0u32..1000 {
            log.append(format!("{i:>4095}\n").as_bytes());
        }
        let total = std::fs::metadata(&path).expect("current").len()
            + std::fs::metadata(previous(&path)).expect("previous").len();
        assert!(total > LIMIT_BYTES && total <= 2 * LIMIT_BYTES, "{total}");
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(text.ends_with("999\n"));
    }
}
