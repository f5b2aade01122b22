//! Which VMMs of this host depend on a lease and live, and which of them have outlived it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::host;
use crate::lease::ArmedRecord;

/// What was seen in one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// VMMs that live and depend on a lease.
    pub bound: usize,
    /// Those of them whose lease has ended, and what could not be told, in words.
    pub outlived: BTreeSet<String>,
}

impl Sight {
    /// Nothing runs here that may run elsewhere.
    pub fn is_safe(&self) -> bool {
        self.outlived.is_empty()
    }

    /// For the operator.
    pub fn describe(&self) -> String {
        match self.is_safe() {
            true => format!("all is well again; {} VMs depend on a lease", self.bound),
            false => {
                let outlived: Vec<_> = self.outlived.iter().map(String::as_str).collect();
                format!("the watchdog is not fed: {}", outlived.join("; "))
            }
        }
    }
}

/// Looks at every VM with a directory below `run_dir`. What cannot be told counts as outlived: better one
/// reset too many than a VM that runs twice.
pub fn look(run_dir: &Path) -> Sight {
    let mut sight = Sight::default();
    let boot = match host::boot_id() {
        Ok(boot) => boot,
        Err(e) => {
            sight.outlived.insert(format!("this host has no boot id: {e}"));
            return sight;
        }
    };
    let entries = match std::fs::read_dir(run_dir) {
        Ok(entries) => entries,
        // No VM has run since the boot.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return sight,
        Err(e) => {
            sight.outlived.insert(format!("{} cannot be listed: {e}", run_dir.display()));
            return sight;
        }
    };
    for dir in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()) {
        let record = match ArmedRecord::read(&dir) {
            Ok(Some(record)) => record,
            Ok(None) => continue,
            Err(e) => {
                sight.outlived.insert(format!("the lease of {} cannot be read: {e}", dir.display()));
                continue;
            }
        };
        let lives = host::process_start_ticks(record.vmm.pid) == Some(record.vmm.start_ticks);
        if record.boot_id != boot || !lives {
            continue;
        }
        sight.bound += 1;
        if let Err(why) = record.lease.deadline() {
            let vm = dir.file_name().unwrap_or_default().to_string_lossy();
            sight.outlived.insert(format!("VM {vm} (process {}) still runs although {why}", record.vmm.pid));
        }
    }
    sight
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;
    use crate::lease::{Lease, LeaseFile, LeaseId};
    use crate::vm_dir::ProcessId;

    const LATER: u64 = u64::MAX / 2;

    /// A process that stands for a VMM; gone with this.
    struct Vmm(Child);

    impl Vmm {
        fn start() -> Self {
            Self(Command::new("sleep").arg("1000").spawn().expect("sleep runs"))
        }

        fn id(&self) -> ProcessId {
            let pid = self.0.id();
            ProcessId { pid, start_ticks: host::process_start_ticks(pid).expect("it lives") }
        }
    }

    impl Drop for Vmm {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn record(run_dir: &Path, vm: &str, lease: &LeaseFile, id: u64, vmm: ProcessId) {
        let dir = run_dir.join(vm);
        std::fs::create_dir_all(&dir).expect("directory");
        let lease = Lease { file: lease.path().to_owned(), id: LeaseId(id) };
        ArmedRecord::new(host::boot_id().expect("boot id"), lease, vmm, vmm).write(&dir).expect("written");
    }

    #[test]
    fn it_is_safe_until_a_vmm_outlives_its_lease_and_again_when_that_is_gone() {
        let dir = tempfile::tempdir().expect("temporary directory");
        assert_eq!(look(&dir.path().join("none")), Sight::default());
        let file = LeaseFile::open_or_create(&dir.path().join("lease")).expect("lease file");
        file.grant(LeaseId(1), LATER).expect("granted");
        std::fs::create_dir(dir.path().join("pinned")).expect("directory");
        let (one, two) = (Vmm::start(), Vmm::start());
        record(dir.path(), "one", &file, 1, one.id());
        record(dir.path(), "two", &file, 1, two.id());
        assert_eq!(look(dir.path()), Sight { bound: 2, outlived: BTreeSet::new() });

        file.grant(LeaseId(2), LATER).expect("granted");
        record(dir.path(), "two", &file, 2, two.id());
        let sight = look(dir.path());
        assert!(!sight.is_safe());
        assert_eq!(sight.bound, 2);
        assert!(sight.describe().contains("VM one"), "{}", sight.describe());
        assert!(!sight.describe().contains("VM two"), "{}", sight.describe());
        drop(one);
        assert_eq!(look(dir.path()), Sight { bound: 1, outlived: BTreeSet::new() });
    }

    #[test]
    fn another_process_with_the_same_id_is_no_vmm_and_one_that_has_stopped_still_is() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = LeaseFile::open_or_create(&dir.path().join("lease")).expect("lease file");
        let vmm = Vmm::start();
        let reused = ProcessId { start_ticks: vmm.id().start_ticks + 1, ..vmm.id() };
        record(dir.path(), "reused", &file, 1, reused);
        assert_eq!(look(dir.path()), Sight::default());
        record(dir.path(), "stopped", &file, 1, vmm.id());
        // SAFETY: a plain system call on a child of this process.
        assert_eq!(unsafe { libc::kill(vmm.id().pid as i32, libc::SIGSTOP) }, 0);
        assert_eq!(look(dir.path()).outlived.len(), 1);
    }

    #[test]
    fn what_cannot_be_told_is_not_safe() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let vm = dir.path().join("vm");
        std::fs::create_dir(&vm).expect("directory");
        std::fs::write(vm.join("armed.json"), "{").expect("written");
        assert!(!look(dir.path()).is_safe());
        let vmm = Vmm::start();
        let file = LeaseFile::open_or_create(&dir.path().join("lease")).expect("lease file");
        file.grant(LeaseId(1), LATER).expect("granted");
        record(dir.path(), "vm", &file, 1, vmm.id());
        assert!(look(dir.path()).is_safe());
        std::fs::remove_file(file.path()).expect("removed");
        assert!(!look(dir.path()).is_safe(), "a lease without its file is none");
    }
}
