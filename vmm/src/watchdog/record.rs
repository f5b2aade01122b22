//! `watchdog.json` in the run directory: who feeds which watchdog, so that the daemon can tell what this host is
//! covered by. On tmpfs, as everything the watchdog has to do with.

use std::io;
use std::path::{Path, PathBuf};

use holm_model::BootId;
use serde::{Deserialize, Serialize};

use crate::durable::{self, Sync};
use crate::host;
use crate::vm_dir::{FORMAT, ProcessId};

/// The file's content. Counts while its process lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub version: u32,
    pub boot_id: BootId,
    pub process: ProcessId,
    pub device: PathBuf,
    /// The host is reset so long after the last look that found all well.
    pub timeout_s: u32,
    /// False for what is no watchdog device.
    pub resets: bool,
}

impl Record {
    /// Of this process.
    pub(super) fn own(device: &Path, timeout_s: u32, resets: bool) -> io::Result<Self> {
        let pid = std::process::id();
        let start_ticks = host::process_start_ticks(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self {
            version: FORMAT,
            boot_id: host::boot_id()?,
            process: ProcessId { pid, start_ticks },
            device: device.to_owned(),
            timeout_s,
            resets,
        })
    }

    /// The watchdog that is fed at present, if one is; one that ended, or of an earlier boot, is none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(run_dir: &Path) -> io::Result<Option<Self>> {
        let Some(record) = durable::read_json::<Self>(&path(run_dir))? else { return Ok(None) };
        let lives = host::process_start_ticks(record.process.pid) == Some(record.process.start_ticks);
        Ok((lives && record.boot_id == host::boot_id()?).then_some(record))
    }

    /// Leaves word, unless that is there. The run directory is made by the daemon, which may start later.
    pub(super) fn leave(&self, run_dir: &Path) {
        if run_dir.is_dir() && !matches!(Self::read(run_dir), Ok(Some(there)) if there == *self) {
            // In vain: the next look tries again, and nothing of the watchdog depends on it.
            let _ = durable::write_json(&path(run_dir), self, Sync::No);
        }
    }
}

fn path(run_dir: &Path) -> PathBuf {
    run_dir.join("watchdog.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_counts_while_its_process_lives() {
        let dir = tempfile::tempdir().expect("temporary directory");
        assert_eq!(Record::read(dir.path()).expect("readable"), None);
        let own = Record::own(Path::new("/dev/watchdog"), 4, true).expect("this process");
        own.leave(&dir.path().join("not made yet"));
        own.leave(dir.path());
        assert_eq!(Record::read(dir.path()).expect("readable"), Some(own.clone()));
        let later = ProcessId { start_ticks: own.process.start_ticks + 1, ..own.process };
        durable::write_json(&path(dir.path()), &Record { process: later, ..own.clone() }, Sync::No)
            .expect("written");
        assert_eq!(Record::read(dir.path()).expect("readable"), None, "another process has its id");
        own.leave(dir.path());
        assert_eq!(Record::read(dir.path()).expect("readable"), Some(own));
    }

    #[test]
    fn a_record_of_the_first_version_stays_readable() {
        let text = r#"{"version":1,"boot_id":"6f9619ff-8b86-4011-b42d-00c04fc964ff",
            "process":{"pid":10,"start_ticks":99},"device":"/dev/watchdog","timeout_s":4,"resets":true,
            "later":true}"#;
        let record: Record = serde_json::from_str(text).expect("readable");
        assert_eq!((record.timeout_s, record.resets), (4, true));
    }
}
