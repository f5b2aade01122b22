//! A driver with directories of its own, and the proof that a test leaves nothing behind: whatever it
//! started is ended when it ends, failed or not.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holm_model::{Epoch, Revision, VmId};
use holm_vmm::cloud_hypervisor::{CloudHypervisor, Settings, ShimCommand, detect};
use holm_vmm::hypervisor::{Boot, Instance, InstanceState, Observation, StartSpec};
use holm_vmm::test_guest::{self, Variant};
use holm_vmm::{Hypervisor, host};
use tokio::io::AsyncReadExt;

/// Generous: two cores are shared by every test.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A driver and what it works on.
pub struct Rig {
    root: tempfile::TempDir,
    /// A file system of its own lies over the VM directories.
    shrunk: bool,
    pub driver: CloudHypervisor,
}

impl Rig {
    /// With the real Cloud Hypervisor; `None`, and a visible line, where it cannot run.
    pub async fn real(test: &str) -> Option<Self> {
        Self::real_with(test, |_, _| {}).await
    }

    /// As [`Rig::real`], with settings changed; `change` is told the directory of the test.
    pub async fn real_with(test: &str, change: impl FnOnce(&Path, &mut Settings)) -> Option<Self> {
        match detect(None).await {
            Ok(_) => Some(Self::at(temporary(), change)),
            Err(reason) => {
                skipped(test, &reason);
                None
            }
        }
    }

    /// With a program that stands in for Cloud Hypervisor and misbehaves.
    pub async fn fake(test: &str, text: &str) -> Option<Self> {
        Self::fake_with(test, |root, settings| {
            settings.vmm_binary = Some(script(root, "fake-hypervisor", text));
        })
    }

    /// As [`Rig::fake`], with settings that name the stand-ins.
    pub fn fake_with(test: &str, change: impl FnOnce(&Path, &mut Settings)) -> Option<Self> {
        if let Err(reason) = host::kvm() {
            skipped(test, &reason);
            return None;
        }
        Some(Self::at(temporary(), change))
    }

    /// With this binary, real or not.
    pub fn with_binary(binary: Option<PathBuf>) -> Self {
        Self::at(temporary(), |_, settings| settings.vmm_binary = binary)
    }

    fn at(root: tempfile::TempDir, change: impl FnOnce(&Path, &mut Settings)) -> Self {
        let mut settings = settings(root.path());
        change(root.path(), &mut settings);
        let driver = CloudHypervisor::new(settings).expect("driver");
        Self { root, shrunk: false, driver }
    }

    /// The driver as it is after a restart of the daemon: nothing but the directories survives.
    pub fn restart(&mut self) {
        self.driver = CloudHypervisor::new(settings(self.root.path())).expect("driver");
    }

    /// Puts the VM directories on a small file system; needs root.
    pub fn shrink_vm_dir(&mut self, size: &str) -> nix::Result<()> {
        let flags = nix::mount::MsFlags::empty();
        nix::mount::mount(Some("none"), &self.path().join("vms"), Some("tmpfs"), flags, Some(size))?;
        self.shrunk = true;
        Ok(())
    }

    /// Puts the VM directories on an ext4 file system of their own; needs root and loop devices.
    pub fn put_vms_on_a_disk(&mut self) -> Result<(), String> {
        let (image, vms) = (self.path().join("disk"), self.path().join("vms"));
        std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).map_err(|e| e.to_string())?;
        command("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), image.as_ref()])?;
        // The loop device goes with the mount.
        command("mount", &["-o".as_ref(), "loop".as_ref(), image.as_ref(), vms.as_ref()])?;
        self.shrunk = true;
        Ok(())
    }

    /// Makes every write to the VM directories wait, until the guard is dropped.
    pub fn freeze_disk(&self) -> Frozen {
        let root = std::fs::File::open(self.path().join("vms")).expect("mounted");
        // SAFETY: the descriptor is open; the argument is not used.
        let frozen = unsafe { libc::ioctl(root.as_raw_fd(), FIFREEZE, 0) };
        assert_eq!(frozen, 0, "frozen: {}", std::io::Error::last_os_error());
        Frozen(root)
    }

    /// Waits until the shim has written down the end and has gone.
    pub async fn until_ended_on_disk(&self, vm: VmId) {
        let deadline = Instant::now() + PATIENCE;
        while self.run_dir(vm).exists() {
            assert!(Instant::now() < deadline, "its shim is still there");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    pub fn vm_dir(&self, vm: VmId) -> PathBuf {
        self.path().join("vms").join(vm.to_string())
    }

    pub fn run_dir(&self, vm: VmId) -> PathBuf {
        self.path().join("run").join(vm.to_string())
    }

    /// Writes a test guest where an image would be.
    pub fn image(&self, variant: Variant) -> PathBuf {
        let path = self.path().join(format!("{variant:?}"));
        std::fs::write(&path, test_guest::elf(variant)).expect("image");
        path
    }

    pub fn spec(&self, variant: Variant) -> StartSpec {
        StartSpec {
            vm: random_vm(),
            name: "test".to_owned(),
            epoch: Epoch(Revision(7)),
            run: 1,
            vcpus: 1,
            memory_mib: 64,
            disk_gib: 0,
            boot: Boot::Kernel { kernel: self.image(variant) },
            cmdline: None,
            lease: None,
            cpu_affinity: Vec::new(),
            pci_devices: Vec::new(),
            volumes: Vec::new(),
            cluster: None,
            start_order: 0,
            again: false,
        }
    }

    pub async fn instance(&self, vm: VmId) -> Instance {
        match self.driver.observe(vm).await {
            Observation::Known(instance) => instance,
            other => panic!("{vm} is {other:?}"),
        }
    }

    /// Waits until the VM is observed in a state that `wanted` accepts.
    pub async fn until(&self, vm: VmId, wanted: impl Fn(&InstanceState) -> bool) -> InstanceState {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let observation = self.driver.observe(vm).await;
            match &observation {
                Observation::Known(instance) if wanted(&instance.state) => return instance.state.clone(),
                _ => assert!(Instant::now() < deadline, "still {observation:?}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the console log holds `text`.
    pub async fn until_printed(&self, vm: VmId, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = self.driver.log(vm, 1 << 20).await.expect("log");
            if String::from_utf8_lossy(&log).contains(text) {
                return;
            }
            assert!(Instant::now() < deadline, "log holds {:?}", String::from_utf8_lossy(&log));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until the shim has locked its memory, which it does a second after the start, where it may.
    pub async fn until_memory_is_locked(&self, vm: VmId) {
        let path = format!("/proc/{}/status", self.processes(vm).0);
        let deadline = Instant::now() + Duration::from_secs(3);
        let locked = || {
            let status = std::fs::read_to_string(&path).expect("the shim runs");
            let kib = status.lines().find_map(|line| line.strip_prefix("VmLck:"))?;
            // More than the page of its lease.
            kib.trim().trim_end_matches("kB").trim().parse::<u64>().ok().filter(|kib| *kib > 64)
        };
        while locked().is_none() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What the shim wrote down about its processes: (shim, VMM).
    pub fn processes(&self, vm: VmId) -> (u32, u32) {
        let record = shim_record(&self.vm_dir(vm)).expect("shim.json");
        (pid_in(&record, "shim").expect("shim"), pid_in(&record, "vmm").expect("vmm"))
    }

    /// Nothing of the VM runs, no socket and no temporary file is left.
    pub fn assert_no_leak(&self, vm: VmId) {
        let record = shim_record(&self.vm_dir(vm)).expect("shim.json");
        // The lock is free as soon as the descriptors are closed; the process table takes a moment longer.
        let deadline = Instant::now() + PATIENCE;
        while let Some((role, process)) = live_processes(&record).first() {
            assert!(Instant::now() < deadline, "{role} {process} still runs");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!self.run_dir(vm).exists(), "sockets are left in {}", self.run_dir(vm).display());
        for entry in std::fs::read_dir(self.vm_dir(vm)).expect("VM directory") {
            let name = entry.expect("entry").file_name();
            assert!(!name.to_string_lossy().contains(".tmp"), "{name:?} is left");
        }
        if let Some(group) = record["cgroup"].as_str() {
            assert!(!Path::new(group).exists(), "{group} is left");
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let vms = self.path().join("vms");
        for entry in std::fs::read_dir(&vms).into_iter().flatten().flatten() {
            if let Some(record) = shim_record(&entry.path()) {
                for (_, pid) in live_processes(&record) {
                    // SAFETY: a plain system call; one that is gone by now is no error.
                    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
                }
            }
            remove_groups(&entry.file_name());
        }
        if self.shrunk {
            let _ = nix::mount::umount2(&vms, nix::mount::MntFlags::MNT_DETACH);
        }
    }
}

/// Removes the cgroup of a VM whose processes were told to end, and that of all guests if it was the last;
/// a shim that died early has not written down which it was.
fn remove_groups(vm: &std::ffi::OsStr) {
    for root in ["/sys/fs/cgroup/holm-guests", "/sys/fs/cgroup/unified/holm-guests"].map(Path::new) {
        let group = root.join(vm);
        let deadline = Instant::now() + PATIENCE;
        while std::fs::remove_dir(&group).is_err() && group.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = std::fs::remove_dir(root);
    }
}

/// Says that a test could not run, past libtest's capture, which hides what passing tests print.
pub fn skipped(test: &str, reason: &str) {
    drop(std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("SKIPPED: {test}: {reason}\n")));
}

/// `_IOWR('X', 119, int)` and the next one, see `linux/fs.h`.
const FIFREEZE: libc::c_ulong = 0xc004_5877;
const FITHAW: libc::c_ulong = 0xc004_5878;

/// A file system that is frozen for as long as this lives.
pub struct Frozen(std::fs::File);

impl Drop for Frozen {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open; the argument is not used.
        unsafe { libc::ioctl(self.0.as_raw_fd(), FITHAW, 0) };
    }
}

fn command(name: &str, args: &[&std::ffi::OsStr]) -> Result<(), String> {
    let output = std::process::Command::new(name).args(args).output().map_err(|e| format!("{name}: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Writes an executable script. By another process: a descriptor that is open for writing here is copied into what other
/// tests fork meanwhile, and until that begins the script is busy.
pub fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    let (draft, path) = (dir.join(format!("{name}.draft")), dir.join(name));
    std::fs::write(&draft, text).expect("script");
    command("install", &["-m".as_ref(), "755".as_ref(), draft.as_ref(), path.as_ref()]).expect("installed");
    path
}

/// The death of a process, as the kernel tells it.
pub struct Death {
    pidfd: OwnedFd,
}

impl Death {
    /// Of the process `pid`, which must live.
    pub fn of(pid: u32) -> Self {
        // SAFETY: a plain system call.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        assert!(fd >= 0, "process {pid} lives");
        // SAFETY: a descriptor just opened, owned by nobody else.
        Self { pidfd: unsafe { OwnedFd::from_raw_fd(fd as i32) } }
    }

    /// Whether it has come.
    pub fn has_come(&self) -> bool {
        self.wait(0) > 0
    }

    /// Waits for it; when it came, nanoseconds of `CLOCK_BOOTTIME`.
    pub async fn seen(self) -> u64 {
        let wait = move || {
            assert!(self.wait(PATIENCE.as_millis() as i32) > 0, "the process still lives");
            host::boottime_ns()
        };
        tokio::task::spawn_blocking(wait).await.expect("waited")
    }

    fn wait(&self, timeout_ms: i32) -> i32 {
        let mut poll = libc::pollfd { fd: self.pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, and it is that one.
        unsafe { libc::poll(&mut poll, 1, timeout_ms) }
    }
}

/// An id nobody has.
pub fn random_vm() -> VmId {
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid").expect("random id");
    uuid.trim().parse().expect("an id")
}

/// Short, for the sake of socket paths, and open to the VMM's user.
fn temporary() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new()
        .prefix("holm")
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir()
        .expect("temporary directory")
}

fn settings(root: &Path) -> Settings {
    Settings {
        vm_dir: root.join("vms"),
        run_dir: root.join("run"),
        shim: ShimCommand { exe: env!("CARGO_BIN_EXE_holm-vmm-shim").into(), args: Vec::new() },
        vmm_binary: None,
        firmware: None,
        vmm_user: None,
    }
}

fn shim_record(dir: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(dir.join("shim.json")).ok()?).ok()
}

fn pid_in(record: &serde_json::Value, role: &str) -> Option<u32> {
    record[role]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())
}

/// The recorded processes that are still the same ones.
fn live_processes(record: &serde_json::Value) -> Vec<(&'static str, u32)> {
    ["shim", "vmm"]
        .into_iter()
        .filter_map(|role| Some((role, pid_in(record, role)?)))
        .filter(|(role, pid)| host::process_start_ticks(*pid) == record[*role]["start_ticks"].as_u64())
        .collect()
}

/// Sends a signal to one process.
pub fn signal(pid: u32, signal: i32) {
    // SAFETY: a plain system call.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0, "signal {signal} to {pid}");
}

/// Reads from a console until it has said `text`.
pub async fn read_until(stream: &mut tokio::net::UnixStream, text: &str) -> String {
    let mut said = Vec::new();
    let read = async {
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&said).contains(text) {
            let n = stream.read(&mut buffer).await.expect("console");
            assert!(n > 0, "the console ended with {:?}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&buffer[..n]);
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, read).await.is_ok();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(in_time, "the console said {said:?}, not {text:?}");
    said
}
