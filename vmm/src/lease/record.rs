//! `armed.json` in a VM's run directory: which VMM depends on which lease. It lies on tmpfs, since it means
//! nothing after a boot, and so that whoever reads or writes it waits for no disk. There from before the
//! guest runs until its VMM is gone, or was freed from its lease.

use std::io;
use std::path::{Path, PathBuf};

use holm_model::BootId;
use serde::{Deserialize, Serialize};

use super::Lease;
use crate::durable::{self, Sync};
use crate::vm_dir::{FORMAT, ProcessId};

/// The file's content. Stays readable for ever, as the other files of a shim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmedRecord {
    pub version: u32,
    pub boot_id: BootId,
    pub lease: Lease,
    pub shim: ProcessId,
    pub vmm: ProcessId,
}

impl ArmedRecord {
    /// A record of the current format.
    pub fn new(boot_id: BootId, lease: Lease, shim: ProcessId, vmm: ProcessId) -> Self {
        Self { version: FORMAT, boot_id, lease, shim, vmm }
    }

    /// The record in `run_dir`, if there is one.
    pub fn read(run_dir: &Path) -> io::Result<Option<Self>> {
        durable::read_json(&path(run_dir))
    }

    /// Puts it into `run_dir`.
    pub fn write(&self, run_dir: &Path) -> io::Result<()> {
        durable::write_json(&path(run_dir), self, Sync::No)
    }

    /// Removes the one in `run_dir`; none is no error.
    pub fn remove(run_dir: &Path) -> io::Result<()> {
        match std::fs::remove_file(path(run_dir)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn path(run_dir: &Path) -> PathBuf {
    run_dir.join("armed.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::LeaseId;

    #[test]
    fn a_record_of_the_first_version_stays_readable() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let text = r#"{"version":1,"boot_id":"6f9619ff-8b86-4011-b42d-00c04fc964ff",
            "lease":{"file":"/run/holm/lease","id":7},
            "shim":{"pid":10,"start_ticks":99},"vmm":{"pid":11,"start_ticks":100},"later":true}"#;
        std::fs::write(dir.path().join("armed.json"), text).expect("written");
        let record = ArmedRecord::read(dir.path()).expect("readable").expect("there");
        assert_eq!(record.lease, Lease { file: "/run/holm/lease".into(), id: LeaseId(7) });
        assert_eq!(record.vmm, ProcessId { pid: 11, start_ticks: 100 });
        ArmedRecord::remove(dir.path()).expect("removed");
        ArmedRecord::remove(dir.path()).expect("none is no error");
        assert_eq!(ArmedRecord::read(dir.path()).expect("readable"), None);
    }
}
