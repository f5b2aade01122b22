//! Disks that can be frozen and filled: ext4 in a file, mounted in a namespace of this thread and of what it starts.
//! Whatever becomes of the test, a frozen disk is thawed: by a process that does so when the test has gone.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

/// Why disks cannot be made here, if so.
pub fn missing() -> Option<&'static str> {
    if !nix::unistd::geteuid().is_root() {
        return Some("needs root to mount disks");
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("there are no loop devices");
    }
    let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
    if !["mkfs.ext4", "fsfreeze", "mount"].into_iter().all(has) {
        return Some("mkfs.ext4, fsfreeze or mount is not installed");
    }
    None
}

/// Says, past libtest's capture, that `test` did not run, and whether that is so.
pub fn skipped(test: &str) -> bool {
    let Some(why) = missing() else { return false };
    drop(writeln!(std::io::stderr(), "SKIPPED: {test}: {why}"));
    true
}

/// From here on this thread, and what it starts, has mounts of its own; they go with the last of them.
pub fn enter_namespace() {
    unshare(CloneFlags::CLONE_NEWNS).expect("root may have mounts of its own");
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).expect("mounts can be made private");
}

/// One disk; gone when dropped.
pub struct Disk {
    mount_point: PathBuf,
    frozen: Option<Thaw>,
}

/// Thaws when its input ends, which it does with this process.
struct Thaw {
    child: Child,
    input: Option<ChildStdin>,
}

impl Disk {
    /// An empty one of `mib`, mounted at `mount_point`; its file lies beside.
    pub fn new(mount_point: &Path, mib: u64) -> Self {
        std::fs::create_dir_all(mount_point).expect("a mount point can be made");
        let file = mount_point.with_extension("img");
        File::create(&file).and_then(|file| file.set_len(mib << 20)).expect("an image can be made");
        let quiet = ["-q", "-F", "-O", "^has_journal,^metadata_csum", "-m", "0"];
        call(Command::new("mkfs.ext4").args(quiet).arg(&file));
        // The loop device goes with the mount.
        call(Command::new("mount").args(["-o", "loop"]).arg(&file).arg(mount_point));
        Self { mount_point: mount_point.to_owned(), frozen: None }
    }

    /// From here on no write to it ends.
    pub fn freeze(&mut self) {
        let child = Command::new("sh")
            .args(["-c", "cat >/dev/null; fsfreeze -u \"$0\""])
            .arg(&self.mount_point)
            // What ends the test's whole group must not end this.
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn();
        let mut child = child.expect("sh runs");
        let input = child.stdin.take();
        self.frozen = Some(Thaw { child, input });
        call(Command::new("fsfreeze").arg("-f").arg(&self.mount_point));
    }

    pub fn thaw(&mut self) {
        self.frozen = None;
    }

    /// With another option; refused while somebody writes, which is over in a moment.
    pub fn remount(&self, option: &str) {
        let begun = Instant::now();
        let options = format!("remount,{option}");
        let is_done = || Command::new("mount").args(["-o", &options]).arg(&self.mount_point).output();
        while !is_done().expect("mount runs").status.success() {
            assert!(begun.elapsed() < Duration::from_secs(10), "{} is busy", self.mount_point.display());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Thaw {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.thaw();
        let _ = umount2(&self.mount_point, MntFlags::MNT_DETACH);
    }
}

fn call(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("the program runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
