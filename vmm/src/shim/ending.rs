//! The end of a run: why the VMM exited in words, the record of it on disk, and what the shim takes away.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::cgroup;
use super::setup::note;
use crate::hypervisor::ExitCause;
use crate::lease::ArmedRecord;
use crate::vm_dir::{ExitRecord, FORMAT, ShimRecord, VmDir};

/// How often the record is tried when it cannot be written, a second apart.
const RECORD_TRIES: u32 = 10;

/// Why a VMM exited that nobody told to.
pub fn describe_exit(status: ExitStatus, last_words: &str) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(0), _) => "exit code 0: a vCPU crashed, or somebody ended the process".to_owned(),
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(libc::SIGSYS)) => {
            "signal 31: it made a system call its seccomp filter forbids".to_owned()
        }
        (None, Some(libc::SIGKILL)) => "signal 9: somebody or the OOM killer killed it".to_owned(),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    };
    match last_words {
        "" => format!("Cloud Hypervisor ended by itself ({how})"),
        words => format!("Cloud Hypervisor ended by itself ({how}); its last words: {words}"),
    }
}

/// How the run of `record` ended, as of now.
pub fn exit_of(record: &ShimRecord, cause: ExitCause) -> ExitRecord {
    let ended_at_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    ExitRecord {
        version: FORMAT,
        epoch: record.epoch,
        run: record.run,
        boot_id: record.boot_id,
        cause,
        ended_at_ms,
    }
}

/// Writes down how the run ended; false when that is not possible. A full disk must not lose it, so it is
/// tried for a while; the VMM is gone by now.
pub fn record_exit(dir: &VmDir, exit: &ExitRecord) -> bool {
    dir.free_reserve();
    for _ in 0..RECORD_TRIES {
        match dir.set_exit(exit) {
            Ok(()) => return true,
            Err(e) => note(&format!("exit.json cannot be written: {e}")),
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    false
}

/// Removes sockets and cgroup.
pub fn clean_up(run_dir: &Path, record: &ShimRecord) {
    for socket in [&record.api_socket, &record.control_socket, &record.console_socket] {
        let _ = std::fs::remove_file(socket);
    }
    let _ = ArmedRecord::remove(run_dir);
    let _ = std::fs::remove_dir(run_dir);
    if let Some(group) = &record.cgroup {
        cgroup::leave(group);
    }
}
