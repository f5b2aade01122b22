//! `holmd watchdog` against a file in place of the device: fed while all is well, not while a VMM outlives its
//! lease, turned off only where nothing depends on one.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use holm_vmm::host;
use holm_vmm::lease::{ArmedRecord, Lease, LeaseFile, LeaseId, ProcessId};

const PATIENCE: Duration = Duration::from_secs(20);
const LATER: u64 = u64::MAX / 2;

/// A process of this test, ended with it.
struct Process(Child);

impl Process {
    fn watchdog(dir: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holmd"));
        command.arg("watchdog").arg("--device").arg(dir.join("device")).arg("--run-dir").arg(dir);
        Self(command.stderr(Stdio::null()).spawn().expect("holmd starts"))
    }

    fn vmm() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().expect("sleep runs"))
    }

    fn id(&self) -> ProcessId {
        let pid = self.0.id();
        ProcessId { pid, start_ticks: host::process_start_ticks(pid).expect("it lives") }
    }

    /// As systemd ends it; true when it ended well.
    fn terminate(mut self) -> bool {
        let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it lives");
        self.0.wait().expect("it ends").success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A lease that lasts, and a VMM that depends on it.
fn armed(dir: &Path) -> (LeaseFile, Process) {
    let file = LeaseFile::open_or_create(&dir.join("lease")).expect("lease file");
    file.grant(LeaseId(1), LATER).expect("granted");
    let vmm = Process::vmm();
    std::fs::create_dir(dir.join("vm")).expect("directory");
    let lease = Lease { file: file.path().to_owned(), id: LeaseId(1) };
    let record = ArmedRecord::new(host::boot_id().expect("boot id"), lease, vmm.id(), vmm.id());
    record.write(&dir.join("vm")).expect("written");
    (file, vmm)
}

fn said(dir: &Path) -> Vec<u8> {
    std::fs::read(dir.join("device")).expect("device")
}

/// Waits until it was fed twice more; the second time it has looked since this was called.
fn assert_is_fed(dir: &Path) {
    let (before, deadline) = (said(dir).len(), Instant::now() + PATIENCE);
    while said(dir).len() < before + 2 {
        assert!(Instant::now() < deadline, "it is not fed");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Not fed once in three periods, after the look that may be under way.
fn assert_starves(dir: &Path) {
    std::thread::sleep(Duration::from_millis(1500));
    let before = said(dir);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(said(dir), before, "it is fed");
}

#[test]
fn it_starves_the_device_while_a_vmm_outlives_its_lease_and_turns_it_off_when_none_is_left() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let dir = dir.path();
    std::fs::write(dir.join("device"), "").expect("device");
    let watchdog = Process::watchdog(dir);
    assert_is_fed(dir);

    let (file, vmm) = armed(dir);
    assert_is_fed(dir);

    file.end();
    assert_starves(dir);
    drop(vmm);
    assert_is_fed(dir);
    assert!(watchdog.terminate());
    assert!(said(dir).ends_with(b"V"), "turned off");
}

#[test]
fn it_leaves_the_device_on_where_a_vm_depends_on_a_lease() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let dir = dir.path();
    std::fs::write(dir.join("device"), "").expect("device");
    let _armed = armed(dir);
    let watchdog = Process::watchdog(dir);
    assert_is_fed(dir);
    assert!(watchdog.terminate());
    assert!(!said(dir).contains(&b'V'), "whoever takes over feeds it, or the host is reset");
}

#[test]
fn a_device_or_a_node_that_is_not_there_is_told() {
    let dir = tempfile::tempdir().expect("temporary directory");
    for (option, missing) in [("--run-dir", "/nonexistent/watchdog"), ("--data-dir", "holmd.toml")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holmd"));
        command.args(["watchdog", "--device", "/nonexistent/watchdog"]).arg(option).arg(dir.path());
        command.env_remove("HOLMD_RUN_DIR").env_remove("HOLMD_DATA_DIR");
        let output = command.output().expect("holmd runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(missing), "{said}");
    }
}
