//! Makes a process fit to outlive the daemon: own session, no terminal, protected from the
//! OOM killer, memory locked. What the host does not permit is noted in `shim.log` and done without.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Command line of a shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// The VM's directory.
    pub dir: PathBuf,
    /// The VM's directory of sockets.
    pub run_dir: PathBuf,
}

impl Args {
    /// Reads `--dir <path> --run-dir <path>`.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut args = args.into_iter();
        let (mut dir, mut run_dir) = (None, None);
        while let Some(name) = args.next() {
            let slot = match name.to_str() {
                Some("--dir") => &mut dir,
                Some("--run-dir") => &mut run_dir,
                _ => return Err(format!("unknown argument {name:?}; the daemon starts this, not a person")),
            };
            *slot = args.next().map(PathBuf::from);
        }
        match (dir, run_dir) {
            (Some(dir), Some(run_dir)) => Ok(Self { dir, run_dir }),
            _ => Err("--dir and --run-dir are both needed; the daemon starts this, not a person".to_owned()),
        }
    }

    /// The other way round, for the daemon.
    pub fn to_command_line(&self) -> [OsString; 4] {
        ["--dir".into(), self.dir.clone().into(), "--run-dir".into(), self.run_dir.clone().into()]
    }
}

/// Writes a line to standard error, which is `shim.log`. Never panics and never fails.
pub fn note(text: &str) {
    let seconds =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let _ = writeln!(io::stderr(), "{seconds} {text}");
}

/// Closes what the daemon itself was given by whoever started it: a pipe kept open here would keep its
/// reader waiting for as long as the guest runs. Nothing of this process' own is open yet.
pub fn close_inherited() {
    // SAFETY: no descriptor above standard error is owned by anything in this process. Before Linux 5.9
    // there is no such call, and they stay open.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Cuts every tie to whoever started this process.
pub fn detach(log: &Path) -> io::Result<()> {
    nix::unistd::setsid()?;
    // Console logs are nobody else's business.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let log = OpenOptions::new().create(true).write(true).truncate(true).open(log)?;
    for (file, fd) in [(&null, 0), (&null, 1), (&log, 2)] {
        replace_stdio(file, fd)?;
    }
    std::env::set_current_dir("/")
}

fn replace_stdio(file: &File, fd: i32) -> io::Result<()> {
    // SAFETY: both descriptors are open; 0 to 2 are owned by nobody in particular.
    if unsafe { libc::dup2(file.as_raw_fd(), fd) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Termination signals come as readable data; whoever sends one wants the guest to stop in order.
pub fn catch_signals() -> io::Result<SignalFd> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// Asks the kernel to kill anything else first when memory runs out.
pub fn protect_from_oom_killer() {
    if let Err(e) = std::fs::write("/proc/self/oom_score_adj", "-1000") {
        note(&format!("not protected from the OOM killer: {e}"));
    }
}

/// Keeps every page in memory, so that ending a VMM never waits for a disk.
pub fn lock_memory() {
    // SAFETY: a plain system call.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } < 0 {
        note(&format!("memory is not locked: {}", io::Error::last_os_error()));
    }
}

/// Capabilities by their bit, see `linux/capability.h`.
const CAP_IPC_LOCK: u64 = 1 << 14;
const CAP_SYS_RESOURCE: u64 = 1 << 24;

/// What shims that this process starts would have to do without, in words for the operator: each note in
/// their `shim.log`, known beforehand.
pub fn missing_protection() -> Vec<&'static str> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = effective_capabilities(&status);
    let mut memory = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the structure it is given.
    let unlimited = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut memory) } == 0
        && memory.rlim_cur == libc::RLIM_INFINITY;
    missing(capabilities, unlimited)
}

fn missing(capabilities: u64, memory_unlimited: bool) -> Vec<&'static str> {
    let mut missing = Vec::new();
    if !memory_unlimited && capabilities & CAP_IPC_LOCK == 0 {
        missing.push(
            "their memory is not locked, so a disk that hangs can delay the end of a VM whose lease is over: allow the daemon CAP_IPC_LOCK, or set LimitMEMLOCK=infinity",
        );
    }
    if capabilities & CAP_SYS_RESOURCE == 0 {
        missing.push(
            "the kernel may choose them when memory runs out, which ends their VMs: allow the daemon CAP_SYS_RESOURCE",
        );
    }
    missing
}

fn effective_capabilities(status: &str) -> u64 {
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shims_have_to_do_without_is_told_with_the_remedy() {
        let of = |status: &str, unlimited| missing(effective_capabilities(status), unlimited);
        assert_eq!(of("Name:\tholmd\nCapEff:\t000001ffffffffff\n", false), [""; 0]);
        let no_resource = of("CapEff:\t000001fffeffffff\n", false);
        assert!(matches!(no_resource[..], [one] if one.contains("CAP_SYS_RESOURCE")), "{no_resource:?}");
        assert_eq!(of("CapEff:\t0000000000000000\n", false).len(), 2);
        assert_eq!(of("CapEff:\t0000000000000000\n", true).len(), 1);
    }

    #[test]
    fn arguments_come_back_as_they_were_given() {
        let args = Args { dir: "/vms/a".into(), run_dir: "/run/holm/a".into() };
        assert_eq!(Args::parse(args.to_command_line()), Ok(args));
    }

    #[test]
    fn a_missing_or_unknown_argument_is_refused() {
        assert!(Args::parse([OsString::from("--dir"), OsString::from("/a")]).is_err());
        assert!(Args::parse([OsString::from("--help")]).is_err());
    }
}
