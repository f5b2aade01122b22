//! The Cloud Hypervisor binary and its processes: finding one that can be used, forking one, ending one.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::Duration;

use holm_model::planted::{Plant, planted};

use super::settings::VmmUser;

/// The oldest version whose behaviour is known.
pub const MIN_VERSION: (u32, u32) = (53, 0);
/// Name looked for on `PATH`.
const BINARY: &str = "cloud-hypervisor";
/// Printing the version takes milliseconds.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Cloud Hypervisor needs about 70 descriptors and 5 a vCPU.
const VMM_OPEN_FILES: u64 = 65536;

/// A binary that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    pub path: PathBuf,
    /// As it prints it, without its own name: `v53.0-246-gae44c2971`.
    pub version: String,
}

/// The last answer of [`Finder::find`] and which file it was about.
#[derive(Debug, Default)]
pub struct Finder {
    known: Mutex<Option<(FileIdentity, Binary)>>,
}

/// Device, inode, size, and when the file or its attributes changed: another one with every upgrade, and with
/// privileges given to the file.
type FileIdentity = (u64, u64, u64, i64, i64);

impl Finder {
    /// As [`find`], without running the binary again while the file is the same.
    pub async fn find(&self, configured: Option<&Path>) -> Result<Binary, String> {
        let identity = || {
            let meta = configured.map(Path::to_owned).or_else(on_path)?.metadata().ok()?;
            Some((meta.dev(), meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec()))
        };
        let before = identity();
        let known = self.known.lock().unwrap_or_else(|e| e.into_inner()).clone();
        if let Some((of, binary)) = known
            && Some(of) == before
        {
            return Ok(binary);
        }
        let binary = find(configured).await?;
        // A file that changed meanwhile is looked at again.
        let known = before.filter(|of| Some(*of) == identity()).map(|of| (of, binary.clone()));
        *self.known.lock().unwrap_or_else(|e| e.into_inner()) = known;
        Ok(binary)
    }
}

/// Finds the configured binary, or the one on `PATH`, and checks it. The error says what to do.
pub async fn find(configured: Option<&Path>) -> Result<Binary, String> {
    let path = match configured {
        Some(path) => path.to_owned(),
        None => on_path().ok_or_else(|| {
            format!(
                "{BINARY} is not on PATH: install v{}.{} or later, or set its path in the configuration",
                MIN_VERSION.0, MIN_VERSION.1
            )
        })?,
    };
    check_file(&path)?;
    let version = version(&path).await?;
    let numbers = parse_version(&version).ok_or_else(|| {
        format!(
            "{} does not print a Cloud Hypervisor version but {version:?}: is it Cloud Hypervisor?",
            path.display()
        )
    })?;
    if numbers < MIN_VERSION {
        return Err(format!(
            "{} is {version}; Holm needs v{}.{} or later: install a newer one",
            path.display(),
            MIN_VERSION.0,
            MIN_VERSION.1
        ));
    }
    Ok(Binary { path, version })
}

fn on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(BINARY)).find(|file| file.is_file())
}

/// An executable file without privileges of its own: set-id bits and file capabilities would clear the
/// parent-death signal, so that a VMM could outlive its shim.
fn check_file(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let meta = path
        .metadata()
        .map_err(|e| format!("{shown} cannot be used ({e}): install Cloud Hypervisor or correct its path"))?;
    if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 {
        return Err(format!("{shown} is not an executable file: correct the path or its mode"));
    }
    check_privileges(path)
}

/// Part of [`check_file`] that the shim looks at once more: the file may have changed since.
fn check_privileges(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let mode = path.metadata().map_err(|e| format!("{shown} cannot be used: {e}"))?.mode();
    if mode & 0o6000 != 0 {
        return Err(format!("{shown} has a set-id bit, so it could outlive its shim: chmod ug-s it"));
    }
    let c_path = std::ffi::CString::new(path.as_os_str().as_bytes())
        .map_err(|_| format!("{shown} holds a NUL byte: correct the path"))?;
    // SAFETY: both strings end in NUL; a null buffer of length 0 asks for the size only.
    let len =
        unsafe { libc::getxattr(c_path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) };
    if len > 0 {
        return Err(format!("{shown} has file capabilities, so it could outlive its shim: setcap -r it"));
    }
    Ok(())
}

async fn version(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let mut command = tokio::process::Command::new(path);
    command.arg("--version").stdin(std::process::Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(VERSION_TIMEOUT, command.output())
        .await
        .map_err(|_| format!("{shown} --version does not end: is it Cloud Hypervisor?"))?
        .map_err(|e| format!("{shown} cannot be run: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "{shown} --version failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let line = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned();
    Ok(line.trim_start_matches(BINARY).trim().to_owned())
}

/// `v53.0-246-gae44c2971` is (53, 0).
fn parse_version(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix('v')?.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next().and_then(|p| p.parse().ok()).unwrap_or(0)))
}

/// What a VMM is started with.
pub struct Launch<'a> {
    pub binary: &'a Path,
    /// Listening socket of its API.
    pub api: BorrowedFd<'a>,
    /// Where its events go.
    pub events: BorrowedFd<'a>,
    /// Inherited and never used: the lock it is a copy of is free only when the VMM is gone too.
    pub lock: BorrowedFd<'a>,
    /// The guest's serial port.
    pub terminal_in: File,
    pub terminal_out: File,
    pub stderr: File,
    pub user: Option<VmmUser>,
}

/// A VMM that this process forked.
pub struct Vmm {
    child: Child,
    pidfd: OwnedFd,
}

impl Vmm {
    /// Forks one. It dies with this process: the caller must be the main thread of the shim, because the
    /// parent-death signal fires when the forking *thread* ends.
    pub fn launch(launch: Launch<'_>) -> io::Result<Self> {
        check_privileges(launch.binary).map_err(io::Error::other)?;
        let inherited = [launch.api.as_raw_fd(), launch.events.as_raw_fd(), launch.lock.as_raw_fd()];
        let mut command = Command::new(launch.binary);
        command
            .arg("--api-socket")
            .arg(format!("fd={}", inherited[0]))
            .arg("--event-monitor")
            .arg(format!("fd={}", inherited[1]))
            .arg("--no-shutdown")
            .env_clear()
            .current_dir("/")
            .stdin(launch.terminal_in)
            .stdout(launch.terminal_out)
            .stderr(launch.stderr);
        let shim = std::process::id() as libc::pid_t;
        let identity = launch.user.map(|user| Identity { user, kvm_group: kvm_group() });
        // SAFETY: the shim has one thread, and `prepare_child` makes system calls only.
        unsafe {
            command.pre_exec(move || prepare_child(shim, &inherited, identity.as_ref()));
        }
        let child = command.spawn()?;
        // SAFETY: the child is not reaped yet, so its pid is its own; flags 0.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id() as libc::pid_t, 0) };
        let mut child = child;
        if pidfd < 0 {
            let error = io::Error::last_os_error();
            // Without a handle to end it later it must not run.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        // SAFETY: a descriptor just opened, owned by nobody else.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd as i32) };
        Ok(Self { child, pidfd })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Readable once it has exited.
    pub fn exit_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Sends `signal`; a VMM that is gone already is no error.
    pub fn signal(&self, signal: i32) {
        send_signal(self.pidfd.as_fd(), signal);
    }

    /// How it exited, once it has.
    pub fn try_wait(&mut self) -> io::Result<Option<std::process::ExitStatus>> {
        self.child.try_wait()
    }
}

/// Sends `signal` to the process behind `pidfd`.
pub fn send_signal(pidfd: BorrowedFd<'_>, signal: i32) {
    // SAFETY: the descriptor is open; a null siginfo is what kill(2) sends.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        );
    }
}

struct Identity {
    user: VmmUser,
    kvm_group: Option<libc::gid_t>,
}

/// The group that may open `/dev/kvm`.
fn kvm_group() -> Option<libc::gid_t> {
    Path::new("/dev/kvm").metadata().ok().map(|m| m.gid()).filter(|gid| *gid != 0)
}

/// Between fork and exec: system calls only. Its user first, then the parent-death signal (a later setuid
/// would clear it), then whether the parent is still there.
fn prepare_child(shim: libc::pid_t, inherited: &[i32], identity: Option<&Identity>) -> io::Result<()> {
    fn check(result: libc::c_int) -> io::Result<()> {
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
    let signal_first = planted(Plant::DeathSignalFirst);
    // SAFETY: plain system calls on valid arguments.
    unsafe {
        if signal_first {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        }
        for fd in inherited {
            check(libc::fcntl(*fd, libc::F_SETFD, 0))?;
        }
        // The shim's protection from the OOM killer is not for the guest. Best effort: raising is allowed.
        let oom = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if oom >= 0 {
            libc::write(oom, b"0".as_ptr().cast(), 1);
            libc::close(oom);
        }
        let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        check(libc::getrlimit(libc::RLIMIT_NOFILE, &mut files))?;
        files.rlim_cur = files.rlim_max.min(VMM_OPEN_FILES);
        check(libc::setrlimit(libc::RLIMIT_NOFILE, &files))?;
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        check(libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()))?;
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        if let Some(Identity { user, kvm_group }) = identity {
            let groups = kvm_group.unwrap_or(user.gid);
            check(libc::setgroups(1, &groups))?;
            check(libc::setgid(user.gid))?;
            check(libc::setuid(user.uid))?;
        }
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        if !signal_first {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        }
        if libc::getppid() != shim {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(dir: &Path) -> PathBuf {
        let (draft, path) = (dir.join("draft"), dir.join("vmm"));
        std::fs::write(&draft, "#!/bin/sh\necho cloud-hypervisor v53.0.0\n").expect("written");
        // Not open for writing here, where others fork: a program that is, is busy.
        let installed =
            std::process::Command::new("install").args(["-m", "755"]).arg(draft).arg(&path).status();
        assert!(installed.expect("`install` runs").success());
        path
    }

    #[tokio::test]
    async fn privileges_that_a_binary_is_given_later_are_noticed() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = program(dir.path());
        let finder = Finder::default();
        finder.find(Some(&path)).await.expect("usable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).expect("mode");
        let refused = finder.find(Some(&path)).await.expect_err("set-id");
        assert!(refused.contains("set-id bit") && refused.contains("chmod ug-s"), "{refused}");
        assert_eq!(check_privileges(&path), Err(refused), "the shim looks too");
    }

    #[tokio::test]
    async fn a_binary_with_file_capabilities_is_refused() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = program(dir.path());
        let finder = Finder::default();
        finder.find(Some(&path)).await.expect("usable");
        // Version 2, effective, CAP_NET_ADMIN permitted.
        let mut capability = [0u8; 20];
        capability[..8].copy_from_slice(&[1, 0, 0, 2, 0, 0x10, 0, 0]);
        let c_path = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("no NUL");
        // SAFETY: both strings end in NUL, and the buffer is as long as it says.
        let set = unsafe {
            let (name, value) = (c"security.capability".as_ptr(), capability.as_ptr().cast());
            libc::setxattr(c_path.as_ptr(), name, value, capability.len(), 0)
        };
        if set < 0 {
            let why = io::Error::last_os_error();
            // Past libtest's capture, which hides what passing tests print.
            drop(io::Write::write_fmt(
                &mut io::stderr(),
                format_args!("SKIPPED: file capabilities: they cannot be given here: {why}\n"),
            ));
            return;
        }
        let refused = finder.find(Some(&path)).await.expect_err("capabilities");
        assert!(refused.contains("setcap -r"), "{refused}");
        assert_eq!(check_privileges(&path), Err(refused), "the shim looks too");
    }

    #[test]
    fn versions_compare_by_number() {
        assert_eq!(parse_version("v53.0-246-gae44c2971-dirty"), Some((53, 0)));
        assert_eq!(parse_version("v53.0.0"), Some((53, 0)));
        assert_eq!(parse_version("v9.1"), Some((9, 1)));
        assert_eq!(parse_version("v54"), Some((54, 0)));
        assert_eq!(parse_version("53.0"), None);
        assert!((9, 1) < MIN_VERSION);
    }
}
