//! A node's disk: an ext4 file system in a file, whose power can be cut. `EXT4_IOC_SHUTDOWN` without a flush
//! of the log drops everything that was not durable. Taken down when dropped, whatever happened.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::netns::call;
use super::process::Process;

/// Sparse: what is not used is not there.
const BYTES: u64 = 4 << 30;
/// The last process of ours that held the file system is gone by then.
const RELEASE_LIMIT: Duration = Duration::from_secs(10);

nix::ioctl_write_ptr_bad!(ext4_shutdown, 0x8004_587d, u32);
/// Cuts at once, without even writing the journal.
const NO_LOG_FLUSH: u32 = 2;

nix::ioctl_write_ptr_bad!(fifreeze, 0xc004_5877, i32);
nix::ioctl_write_ptr_bad!(fithaw, 0xc004_5878, i32);

/// A file system on which writes wait.
#[derive(Debug)]
pub struct Frozen {
    root: File,
    probe: PathBuf,
}

impl Frozen {
    /// A write does wait.
    ///
    /// # Errors
    /// When it does not.
    pub fn verify(&self) -> Result<()> {
        let (done, waits) = std::sync::mpsc::channel();
        let probe = self.probe.clone();
        std::thread::spawn(move || {
            let written = std::fs::write(&probe, "waits");
            let _ = std::fs::remove_file(&probe);
            let _ = done.send(written.is_ok());
        });
        ensure!(
            waits.recv_timeout(Duration::from_millis(200)).is_err(),
            "writes do not wait on a frozen disk"
        );
        Ok(())
    }

    /// Writes go on.
    ///
    /// # Errors
    /// When they do not.
    pub fn thaw(self) -> Result<()> {
        self.release().context("cannot thaw the file system")?;
        Ok(())
    }

    fn release(&self) -> nix::Result<i32> {
        // SAFETY: the descriptor is open, and the call reads one int behind a valid pointer, which it ignores.
        unsafe { fithaw(self.root.as_raw_fd(), &0) }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // Again after an orderly thaw, which is refused and does no harm.
        let _ = self.release();
    }
}

/// One disk.
#[derive(Debug)]
pub struct Disk {
    file: PathBuf,
    mount_point: PathBuf,
    device: Option<PathBuf>,
    mounted: bool,
}

impl Disk {
    /// Why there can be none here, if so.
    pub fn missing() -> Option<&'static str> {
        if !nix::unistd::geteuid().is_root() {
            return Some("needs root to mount disks");
        }
        (!Path::new("/dev/loop-control").exists()).then_some("there are no loop devices")
    }

    /// An empty one, in `file`, mounted at `mount_point`.
    ///
    /// # Errors
    /// When a step fails; nothing is left behind then.
    pub fn new(file: PathBuf, mount_point: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&mount_point)?;
        File::create(&file)?.set_len(BYTES)?;
        // A small journal: disks are made for every run.
        call(Command::new("mkfs.ext4").args(["-q", "-F", "-J", "size=16"]).arg(&file))?;
        let device = call(Command::new("losetup").args(["--find", "--show"]).arg(&file))?;
        let mut disk = Self { file, mount_point, device: Some(device.trim().into()), mounted: false };
        disk.mount()?;
        Ok(disk)
    }

    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// From this moment on nothing reaches the device. Verified: nothing can be written any more.
    ///
    /// # Errors
    /// When the file system goes on.
    pub fn cut(&self) -> Result<()> {
        let root = File::open(&self.mount_point)?;
        // SAFETY: the descriptor is open, and the call reads one u32 behind a valid pointer.
        unsafe { ext4_shutdown(root.as_raw_fd(), &NO_LOG_FLUSH) }.context("cannot shut ext4 down")?;
        ensure!(
            File::create(self.mount_point.join("cut")).is_err(),
            "{} takes writes after its power was cut",
            self.file.display()
        );
        Ok(())
    }

    /// Takes all room there is. Verified: nothing more can be written.
    ///
    /// # Errors
    /// When there is still room.
    pub fn fill(&self) -> Result<()> {
        let path = self.filling();
        let mut file = File::create(&path)?;
        let mut chunk = 64 << 20;
        let mut length = 0_u64;
        // Blocks are reserved, not written: a full disk in a moment, and none the less full.
        while chunk >= 4096 {
            match nix::fcntl::fallocate(
                &file,
                nix::fcntl::FallocateFlags::empty(),
                length as i64,
                chunk as i64,
            ) {
                Ok(()) => length += chunk,
                Err(nix::errno::Errno::ENOSPC) => chunk /= 2,
                Err(error) => return Err(error).context("cannot fill the disk"),
            }
        }
        use std::io::Write;
        let probe = self.mount_point.join("probe");
        let written = File::create(&probe).and_then(|mut probe| {
            probe.write_all(&[1; 16 << 10])?;
            probe.sync_all()
        });
        let _ = std::fs::remove_file(&probe);
        ensure!(written.is_err(), "{} still takes writes", self.file.display());
        file.flush().context("the file that fills the disk")
    }

    /// Gives the room back that [`fill`](Self::fill) took.
    ///
    /// # Errors
    /// When the file stays.
    pub fn make_room(&self) -> Result<()> {
        std::fs::remove_file(self.filling()).context("the file that fills the disk stays")
    }

    fn filling(&self) -> PathBuf {
        self.mount_point.join("filling")
    }

    /// From here on every write waits, until the answer is thawed or dropped.
    ///
    /// # Errors
    /// When the file system does not freeze.
    pub fn freeze(&self) -> Result<Frozen> {
        let root = File::open(&self.mount_point)?;
        // SAFETY: the descriptor is open, and the call reads one int behind a valid pointer, which it ignores.
        unsafe { fifreeze(root.as_raw_fd(), &0) }.context("cannot freeze the file system")?;
        Ok(Frozen { root, probe: self.mount_point.join("probe") })
    }

    /// Unmounts; the file system is gone from memory afterwards.
    ///
    /// # Errors
    /// When something keeps it busy.
    pub fn unmount(&mut self) -> Result<()> {
        let began = Instant::now();
        // A child that another thread has just forked holds copies of our descriptors until it begins.
        while let Err(error) = umount2(&self.mount_point, MntFlags::empty()) {
            if error != Errno::EBUSY || began.elapsed() > RELEASE_LIMIT {
                return Err(error).context("cannot unmount; a file is still open");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.mounted = false;
        let device = self.device.as_ref().and_then(|device| device.file_name()).context("no device")?;
        let alive = Path::new("/proc/fs/ext4").join(device);
        while alive.exists() {
            if began.elapsed() > RELEASE_LIMIT {
                return self.move_away();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Somebody's mount namespace was made while the disk was mounted, and keeps the dead file system in memory. What
    /// had become durable is on the device: a copy of it is what the node boots from.
    fn move_away(&mut self) -> Result<()> {
        let held = holders(&self.mount_point);
        ensure!(!held.is_empty(), "{} is still held, by nobody", self.file.display());
        eprintln!("holm-jepsen: a copy of {} is used, since it is held by {held:?}", self.file.display());
        let copy = self.file.with_extension(format!("{:04x}", rand::random::<u16>()));
        call(Command::new("cp").arg("--sparse=always").arg(&self.file).arg(&copy))?;
        let device = call(Command::new("losetup").args(["--find", "--show"]).arg(&copy))?;
        if let Some(old) = self.device.replace(device.trim().into()) {
            // Goes with its last user.
            call(Command::new("losetup").arg("--detach").arg(old))?;
        }
        self.file = copy;
        Ok(())
    }

    /// Mounts what is on the device, which replays the journal.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub fn mount(&mut self) -> Result<()> {
        let device = self.device.as_ref().context("no device")?;
        mount(Some(device), &self.mount_point, Some("ext4"), MsFlags::empty(), None::<&str>)
            .with_context(|| format!("cannot mount {}", self.file.display()))?;
        self.mounted = true;
        Ok(())
    }
}

/// Processes in whose mount namespace something is mounted there.
fn holders(mount_point: &Path) -> Vec<Process> {
    let holds = |pid: i32| {
        let mounts = std::fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap_or_default();
        mounts.lines().any(|line| line.split(' ').nth(1).is_some_and(|at| Path::new(at) == mount_point))
    };
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| holds(*pid))
        .filter_map(Process::find)
        .collect()
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = umount2(&self.mount_point, MntFlags::MNT_DETACH);
        }
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").arg("--detach").arg(device).status();
        }
    }
}
