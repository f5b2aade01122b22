//! Ending a run. The shim does it, and goes on with it when the daemon dies meanwhile; a shim that does
//! not answer is ended together with its VMM.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holm_model::VmId;
use holm_model::vm::StopMode;

use super::CloudHypervisor;
use super::observe::lock_ends;
use super::process::send_signal;
use crate::host;
use crate::hypervisor::{Error, ExitCause};
use crate::shim::client::{Connection, TIMEOUT};
use crate::shim::protocol::Op;
use crate::vm_dir::{ExitRecord, FORMAT, ProcessId, ShimRecord, VmDir};
use crate::vm_files::io_error;

/// From the order to the end of a VMM that is killed: three seconds for SIGTERM, some for the kernel.
const END_PATIENCE: Duration = Duration::from_secs(10);

impl CloudHypervisor {
    pub(super) async fn stop_vm(&self, vm: VmId, mode: StopMode) -> Result<(), Error> {
        let dir = self.dir(vm);
        let unreadable = || io_error("cannot read", dir.path());
        if dir.epoch().map_err(unreadable())?.is_none() {
            return Err(Error::NotHere);
        }
        if !dir.is_locked().map_err(unreadable())? {
            return Ok(());
        }
        let Some(record) = dir.shim().map_err(unreadable())? else {
            return Err(Error::Unknown("a start is under way".to_owned()));
        };
        let (op, patience) = match mode {
            StopMode::Force => (Op::Kill, END_PATIENCE),
            StopMode::Graceful { timeout_s } => {
                (Op::Stop { timeout_s }, Duration::from_secs(timeout_s.into()) + END_PATIENCE)
            }
        };
        let asked = ask(&record, op, patience).await;
        if lock_ends(&dir).await.map_err(unreadable())? {
            return Ok(());
        }
        match (mode, asked) {
            (StopMode::Force, _) => self.end_without_shim(&dir, &record, ExitCause::Requested).await,
            (StopMode::Graceful { .. }, Ok(())) => {
                Err(Error::Unknown("the VM did not end in time: stop it with force".to_owned()))
            }
            (StopMode::Graceful { .. }, Err(e)) => {
                Err(Error::Unknown(format!("its shim does not answer ({e}): stop the VM with force")))
            }
        }
    }

    /// The daemon's own hand on the lease (FENCING.md, rule 16), for a shim that is stopped or hangs.
    pub(super) async fn enforce_lease(&self, vm: VmId) -> Result<(), Error> {
        let dir = self.dir(vm);
        let unreadable = || io_error("cannot read", dir.path());
        if !dir.is_locked().map_err(unreadable())? {
            return Ok(());
        }
        match dir.shim().map_err(unreadable())? {
            Some(record) => self.end_without_shim(&dir, &record, ExitCause::LeaseEnded).await,
            None => Err(Error::Unknown("a start is under way".to_owned())),
        }
    }

    /// The last resort: the VMM by its recorded identity, then the shim.
    async fn end_without_shim(
        &self,
        dir: &VmDir,
        record: &ShimRecord,
        cause: ExitCause,
    ) -> Result<(), Error> {
        if record.boot_id != self.boot_id {
            return Err(Error::Unknown("a start is under way".to_owned()));
        }
        for process in record.vmm.iter().chain([&record.shim]) {
            kill(process);
        }
        let ended = lock_ends(dir).await.map_err(io_error("cannot read", dir.path()))?;
        if !ended {
            return Err(Error::Unknown("Cloud Hypervisor was killed and is not gone yet".to_owned()));
        }
        let ended_at_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        let exit = ExitRecord {
            version: FORMAT,
            epoch: record.epoch,
            run: record.run,
            boot_id: record.boot_id,
            cause,
            ended_at_ms,
        };
        dir.set_exit(&exit).map_err(io_error("cannot write the exit in", dir.path()))
    }
}

/// Gives the order and waits for the shim's end.
async fn ask(record: &ShimRecord, op: Op, patience: Duration) -> io::Result<()> {
    let mut connection = Connection::open(&record.control_socket, op).await?;
    let accepted = tokio::time::timeout(TIMEOUT, connection.next()).await;
    accepted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    // When it is not over then, the lock tells.
    let _ = tokio::time::timeout(patience, connection.gone()).await;
    Ok(())
}

/// Kills exactly this process: the handle is opened before its start time is compared, so the id cannot
/// pass to another one in between.
fn kill(process: &ProcessId) {
    // SAFETY: a plain system call.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process.pid as libc::pid_t, 0) };
    if fd < 0 {
        return;
    }
    // SAFETY: a descriptor just opened, owned by nobody else.
    let pidfd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    if host::process_start_ticks(process.pid) == Some(process.start_ticks) {
        send_signal(pidfd.as_fd(), libc::SIGKILL);
    }
}
