//! Inside: the only process of the machine, which is either the one with the disk (see `target`) or the one that
//! plays two hosts, `A` and `B`, whose VMs want it. Whoever writes does so through a file opened long before, as a
//! VMM does that knows nothing of what happened since.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holm_model::{Epoch, Revision, VolumeId};
use holm_vmm::volume::{self, SharedVolume};

use super::target;

/// Lines for the outside begin so.
pub const SAYS: &str = "HOLM: ";
/// The last of them, one way or the other.
pub const PASSED: &str = "PASSED";
pub const FAILED: &str = "FAILED";
/// Where the modules are, by what the machine is; the names' order is that of loading.
pub const MODULES_DIR: &str = "/modules";
/// How a machine is told what it is.
pub const ROLE: &str = "holm.role=";
/// The machine of the two hosts: the controller by which it has the disk, and disks.
pub const HOSTS: (&str, &[&str]) = ("hosts", &["virtio_pci", "virtio_scsi", "sd_mod"]);

/// Linux gives a refused write this error (`EBADE`).
const RESERVATION_CONFLICT: i32 = 52;
const BLOCK: usize = 4096;

/// Never returns: the machine ends.
pub fn main() -> ! {
    let outcome = std::panic::catch_unwind(|| {
        let role = set_up();
        if role == target::ROLE.0 { target::serve() } else { scenario() }
    });
    // The panic's words are on the console already.
    say(if outcome.is_ok() { PASSED } else { FAILED });
    // SAFETY: a plain system call; nothing here outlives the machine.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    std::process::exit(1)
}

pub fn say(words: &str) {
    println!("\n{SAYS}{words}");
}

/// Mounts and loads what the machine needs, and says what it is.
fn set_up() -> String {
    for (kind, at) in [("sysfs", "/sys"), ("devtmpfs", "/dev"), ("proc", "/proc")] {
        mount(kind, at);
    }
    let told = fs::read_to_string("/proc/cmdline").expect("command line");
    let role = told.split_whitespace().find_map(|word| word.strip_prefix(ROLE)).expect("a role").to_owned();
    let entries = fs::read_dir(Path::new(MODULES_DIR).join(&role)).expect("modules");
    let mut modules: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    modules.sort();
    modules.iter().for_each(|module| load(module));
    role
}

pub fn mount(kind: &str, at: &str) {
    let _ = fs::create_dir_all(at);
    let text = |text: &str| CString::new(text).expect("no NUL in it");
    let (kind, at) = (text(kind), text(at));
    // SAFETY: the strings live until the call returns; no data is passed.
    let mounted = unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
    assert_eq!(mounted, 0, "{at:?}: {}", io::Error::last_os_error());
}

fn load(module: &Path) {
    let file = File::open(module).expect("module");
    // SAFETY: the descriptor is open, and the parameters are an empty string.
    let loaded = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    let error = io::Error::last_os_error();
    assert!(loaded == 0 || error.kind() == io::ErrorKind::AlreadyExists, "{}: {error}", module.display());
}

pub fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// One host's view of the disk, and a VMM of it that has the disk open.
struct Host {
    name: char,
    volume: SharedVolume,
    vmm: File,
}

impl Host {
    fn new(name: char, path: PathBuf) -> Self {
        let direct = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path);
        let vmm = direct.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        say(&format!("host {name} sees the disk as {}", path.display()));
        let volume = SharedVolume {
            id: VolumeId::default(),
            name: "shared".to_owned(),
            path,
            read_only: false,
            reserved: true,
        };
        Self { name, volume, vmm }
    }

    /// What a shim does before it starts a VMM.
    fn take(&self, epoch: u64) -> Result<(), String> {
        let taken = volume::prepare(std::slice::from_ref(&self.volume), Epoch(Revision(epoch)), None);
        let taken = taken.map_err(|refused| refused.why);
        say(&format!("host {} takes the lock under epoch {epoch}: {taken:?}", self.name));
        taken
    }

    /// What a daemon does when the VM was deleted.
    fn release(&self, epoch: u64) {
        volume::release(std::slice::from_ref(&self.volume), Epoch(Revision(epoch)));
        say(&format!("host {} gives up the lock of epoch {epoch}", self.name));
    }

    /// What a guest does.
    fn write(&self, text: &str) -> io::Result<()> {
        let mut block = Block([0; BLOCK]);
        block.0[..text.len()].copy_from_slice(text.as_bytes());
        let written = self.vmm.write_all_at(&block.0, 0);
        say(&format!("host {} writes {text:?}: {written:?}", self.name));
        written
    }

    fn read(&self) -> String {
        let mut block = Block([0; BLOCK]);
        self.vmm.read_exact_at(&mut block.0, 0).expect("anybody may read");
        let text = block.0.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    fn is_refused(&self, text: &str) -> bool {
        let before = self.read();
        let refused = self.write(text).is_err_and(|e| e.raw_os_error() == Some(RESERVATION_CONFLICT));
        refused && self.read() == before
    }
}

/// Aligned as direct access wants it.
#[repr(align(4096))]
struct Block([u8; BLOCK]);

/// Both disks, once the kernel has found them.
fn hosts() -> (Host, Host) {
    let deadline = Instant::now() + Duration::from_secs(120);
    let (a, b) = (PathBuf::from("/dev/sda"), PathBuf::from("/dev/sdb"));
    // Their names are there before they can be opened.
    while [&a, &b].into_iter().any(|path| File::open(path).is_err()) {
        assert!(Instant::now() < deadline, "the kernel does not find the disks");
        std::thread::sleep(Duration::from_millis(50));
    }
    (Host::new('A', a), Host::new('B', b))
}

fn scenario() {
    let (a, b) = hosts();
    a.take(5).expect("nobody has it");
    a.write("five").expect("it holds the lock");
    assert_eq!(b.read(), "five", "one disk, seen twice");
    assert!(b.is_refused("early"), "B has no lock yet");

    b.take(9).expect("9 is newer than 5");
    assert!(a.is_refused("late"), "A's writer of epoch 5 goes on, and the disk refuses it");
    b.write("nine").expect("it holds the lock");
    assert_eq!(a.read(), "nine");

    let refusal = a.take(7).expect_err("7 is older than 9");
    assert!(refusal.contains("epoch 9 has it, and epoch 7 is older"), "{refusal}");
    assert!(a.is_refused("stale"), "a take that was refused gives nothing");
    b.write("still nine").expect("and takes nothing");

    a.take(12).expect("12 is newer than 9");
    a.take(12).expect("a run may begin again");
    a.take(13).expect("the same host goes on under its next epoch");
    assert!(b.is_refused("late"), "B's writer of epoch 9 goes on");
    a.write("thirteen").expect("it holds the lock");

    b.release(9);
    assert!(b.is_refused("late"), "what was lost cannot be given up");
    a.write("still thirteen").expect("and takes nothing");
    a.release(13);
    b.write("free").expect("nobody has it");
    a.write("free for all").expect("nobody has it");
}
