//! The scribe: a second process that does all writing to disk while a guest runs, so that a disk that hangs
//! never holds up the shim, which may have to kill. The shim feeds it through pipes and waits for none of
//! them; whatever the scribe cannot write in time is left out.
//!
//! It inherits the VM's lock: as long as something may still be written into the VM's directory, nobody
//! else takes it. It ends with the shim, or after it wrote down how the run ended.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use super::bounded_log::BoundedLog;
use super::console::set_nonblocking;
use super::ending;
use super::outlet::Outlet;
use super::poll::{PollSet, Token};
use super::vmm_log::VmmLog;
use crate::vm_dir::{ExitRecord, SharedLock, VmDir};

/// What is kept for the log beside the pipe, which holds 64 KiB.
const LOG_QUEUE_BYTES: usize = 16 * 1024;
/// How often the VMM's log is looked at.
const TRIM_PERIOD: Duration = Duration::from_secs(30);

/// The shim's side.
pub struct Scribe {
    process: Pid,
    pidfd: OwnedFd,
    /// Until the order to end was given.
    log: Option<Outlet<PipeWriter>>,
    orders: Option<PipeWriter>,
    /// Goes out as soon as all of the log has.
    last: Option<ExitRecord>,
    gone: Option<bool>,
}

impl Scribe {
    /// Forks it. From here on standard error of this process is a pipe to it. The process must have one thread.
    pub fn fork(dir: &VmDir, lock: &SharedLock) -> io::Result<Self> {
        let (console, log) = io::pipe()?;
        let (notes, stderr) = io::pipe()?;
        let (orders, orderer) = io::pipe()?;
        set_nonblocking(&log)?;
        set_nonblocking(&stderr)?;
        // SAFETY: this process has one thread, so the child may do anything.
        match unsafe { fork() }? {
            ForkResult::Child => {
                let ours = [console.as_raw_fd(), notes.as_raw_fd(), orders.as_raw_fd()];
                close_all_but([ours[0], ours[1], ours[2], lock.as_fd().as_raw_fd()]);
                // Their other ends are closed already, behind the back of these.
                std::mem::forget((log, stderr, orderer));
                Desk::new(dir, console, notes, orders).work()
            }
            ForkResult::Parent { child } => {
                let pidfd = pidfd_of(child)?;
                // SAFETY: both are open; standard error is owned by nobody in particular.
                if unsafe { libc::dup2(stderr.as_raw_fd(), libc::STDERR_FILENO) } < 0 {
                    return Err(io::Error::last_os_error());
                }
                let log = Some(Outlet::new(log, LOG_QUEUE_BYTES, "the disk"));
                Ok(Self { process: child, pidfd, log, orders: Some(orderer), last: None, gone: None })
            }
        }
    }

    /// Takes what the guest printed.
    pub fn console(&mut self, bytes: &[u8]) {
        if let Some(log) = &mut self.log {
            log.offer(bytes);
        }
    }

    /// Orders the end: what is queued, then the record, then nothing more.
    pub fn end(&mut self, record: ExitRecord) {
        self.last = Some(record);
        self.serve();
    }

    /// Registers what it waits for.
    pub fn register<'a>(&'a self, set: &mut PollSet<'a>) {
        if let Some(log) = self.log.as_ref().filter(|log| log.waits()) {
            set.add(Token::Scribe, log.get().as_fd(), false, true);
        }
        if self.gone.is_none() {
            set.add(Token::Scribe, self.pidfd.as_fd(), true, false);
        }
    }

    /// Moves on what waits, and looks whether the process is there.
    pub fn serve(&mut self) {
        if self.log.as_mut().is_some_and(|log| !log.flush() || (!log.waits() && self.last.is_some())) {
            self.log = None;
        }
        if self.log.is_none()
            && let Some(record) = &self.last
            && let Some(mut orders) = self.orders.take()
            && let Ok(line) = serde_json::to_vec(record)
        {
            // Into an empty pipe, which holds more than that. The end of the pipe is the end of the order.
            let _ = orders.write_all(&line);
        }
        if self.gone.is_none()
            && let Ok(status) = waitpid(self.process, Some(WaitPidFlag::WNOHANG))
        {
            match status {
                WaitStatus::StillAlive => {}
                WaitStatus::Exited(_, code) => self.gone = Some(code == 0),
                _ => self.gone = Some(false),
            }
        }
    }

    /// Once the process has ended: whether it wrote the end down before.
    pub fn ended(&self) -> Option<bool> {
        self.gone.map(|well| well && self.last.is_some())
    }
}

/// The scribe's own side.
struct Desk {
    dir: VmDir,
    console: Option<PipeReader>,
    notes: Option<PipeReader>,
    orders: Option<PipeReader>,
    ordered: Vec<u8>,
    log: BoundedLog,
    vmm_log: VmmLog,
    buffer: Box<[u8]>,
}

impl Desk {
    fn new(dir: &VmDir, console: PipeReader, notes: PipeReader, orders: PipeReader) -> Self {
        // So that it can be told from its shim in a list of processes.
        let _ = nix::sys::prctl::set_name(c"holm-scribe");
        Self {
            log: BoundedLog::open(dir.console_log()),
            vmm_log: VmmLog::at(dir.file("vmm.log")),
            dir: dir.clone(),
            console: Some(console),
            notes: Some(notes),
            orders: Some(orders),
            ordered: Vec::new(),
            buffer: vec![0; 8 * 1024].into(),
        }
    }

    /// Until the shim has no more to say. Notes are not waited for: they end with the shim itself.
    fn work(mut self) -> ! {
        while self.console.is_some() || self.orders.is_some() {
            if !self.wait() {
                self.vmm_log.trim();
            }
            self.take();
        }
        let written = match serde_json::from_slice::<ExitRecord>(&self.ordered) {
            Ok(record) => ending::record_exit(&self.dir, &record),
            // The shim is gone without a word.
            Err(_) => false,
        };
        std::process::exit(i32::from(!written))
    }

    /// False when nothing came for a while.
    fn wait(&self) -> bool {
        let pipes = [&self.console, &self.notes, &self.orders];
        let mut fds: Vec<_> =
            pipes.into_iter().flatten().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)).collect();
        let timeout = PollTimeout::try_from(TRIM_PERIOD).unwrap_or(PollTimeout::MAX);
        poll(&mut fds, timeout) != Ok(0)
    }

    fn take(&mut self) {
        read(&mut self.console, &mut self.buffer, |bytes| self.log.append(bytes));
        read(&mut self.notes, &mut self.buffer, |bytes| drop(io::stderr().write_all(bytes)));
        read(&mut self.orders, &mut self.buffer, |bytes| self.ordered.extend_from_slice(bytes));
    }
}

/// Hands on what is there; a pipe that has ended is let go.
fn read(pipe: &mut Option<PipeReader>, buffer: &mut [u8], mut take: impl FnMut(&[u8])) {
    let Some(open) = pipe else { return };
    let mut fds = [PollFd::new(open.as_fd(), PollFlags::POLLIN)];
    if poll(&mut fds, PollTimeout::ZERO) != Ok(1) {
        return;
    }
    match open.read(buffer) {
        Ok(n) if n > 0 => take(&buffer[..n]),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
        Ok(_) | Err(_) => *pipe = None,
    }
}

fn pidfd_of(process: Pid) -> io::Result<OwnedFd> {
    // SAFETY: the child is not reaped yet, so its pid is its own; flags 0.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process.as_raw(), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just opened, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Closes every descriptor above standard error but these: sockets and pipes held open here would look like a
/// shim that lives.
fn close_all_but<const N: usize>(mut kept: [RawFd; N]) {
    kept.sort_unstable();
    let mut from = libc::STDERR_FILENO + 1;
    for fd in kept {
        close_range(from, fd - 1);
        from = fd + 1;
    }
    close_range(from, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: this process was just forked and uses none of them any more.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if done < 0 {
        // Before Linux 5.9.
        for fd in first..=last.min(1024) {
            // SAFETY: as above.
            unsafe { libc::close(fd) };
        }
    }
}
