//! An ext4 file system in a file, whose power can be cut: `EXT4_IOC_SHUTDOWN` without a flush of the log drops
//! everything that was not durable. Mounted for the calling thread and its children only: a copy of the mount
//! elsewhere would keep the dead file system alive. Taken down when dropped, whatever happened.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

const BYTES: u64 = 1 << 30;
/// For an unmount.
const PATIENCE: Duration = Duration::from_secs(10);

nix::ioctl_write_ptr_bad!(ext4_shutdown, 0x8004_587d, u32);
/// Cuts at once, without even writing the journal.
const NO_LOG_FLUSH: u32 = 2;

pub struct Image {
    dir: TempDir,
    device: Option<PathBuf>,
    mounted: bool,
}

impl Image {
    /// Mounted and empty. Fails where this cannot be done, before anything is left behind.
    pub fn new() -> Result<Self> {
        ensure!(nix::unistd::geteuid().is_root(), "needs root to mount");
        ensure!(Path::new("/dev/loop-control").exists(), "there are no loop devices");
        unshare(CloneFlags::CLONE_NEWNS).context("cannot have a mount namespace")?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
            .context("cannot keep mounts private")?;
        let mut this = Self { dir: tempfile::tempdir()?, device: None, mounted: false };
        std::fs::create_dir(this.mount_point())?;
        let file = this.dir.path().join("ext4.img");
        File::create(&file)?.set_len(BYTES)?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&file))?;
        let device = run(Command::new("losetup").args(["--find", "--show"]).arg(&file))?;
        this.device = Some(PathBuf::from(device.trim()));
        this.mount()?;
        Ok(this)
    }

    pub fn mount_point(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    pub fn mount(&mut self) -> Result<()> {
        let device = self.device.as_ref().context("no device")?;
        mount(Some(device), &self.mount_point(), Some("ext4"), MsFlags::empty(), None::<&str>)
            .context("cannot mount ext4")?;
        self.mounted = true;
        // Not the file system that was cut off, kept alive by somebody.
        let probe = self.mount_point().join("probe");
        File::create(probe).and_then(|file| file.sync_all()).context("the file system is still cut off")
    }

    /// Waits for copies of descriptors in children that tests beside this one have forked and that have not begun yet.
    pub fn unmount(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = umount2(&self.mount_point(), MntFlags::empty()) {
            if error != Errno::EBUSY || Instant::now() >= deadline {
                return Err(error).context("cannot unmount; a file is still open");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.mounted = false;
        Ok(())
    }

    /// From this moment on nothing reaches the device.
    pub fn cut_power(&self) -> Result<()> {
        let root = File::open(self.mount_point())?;
        // SAFETY: the descriptor is open, and the call reads one u32 behind a valid pointer.
        unsafe { ext4_shutdown(root.as_raw_fd(), &NO_LOG_FLUSH) }.context("cannot shut ext4 down")?;
        Ok(())
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if self.mounted {
            let _ = umount2(&self.mount_point(), MntFlags::MNT_DETACH);
        }
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").arg("--detach").arg(device).status();
        }
    }
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
