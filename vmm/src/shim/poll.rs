//! One `poll(2)` over everything the shim listens to. Each part registers its descriptors under a token
//! and is told which are ready; nothing here blocks but the wait itself.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Whom a descriptor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Lease,
    Scribe,
    Signal,
    VmmExit,
    Events,
    Api,
    Terminal,
    ConsoleListener,
    ConsoleClient(u64),
    ControlListener,
    ControlClient(u64),
}

/// Descriptors to wait for.
#[derive(Default)]
pub struct PollSet<'a> {
    tokens: Vec<Token>,
    fds: Vec<PollFd<'a>>,
}

impl<'a> PollSet<'a> {
    /// Waits for `fd` to be readable, and writable too if `write`.
    pub fn add(&mut self, token: Token, fd: BorrowedFd<'a>, read: bool, write: bool) {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, read);
        flags.set(PollFlags::POLLOUT, write);
        self.tokens.push(token);
        self.fds.push(PollFd::new(fd, flags));
    }

    /// Waits until something is ready or `timeout` is over; without a time-out, for ever. Errors and hang-ups count as ready,
    /// so that the next read reports them.
    pub fn wait(mut self, timeout: Option<Duration>) -> Vec<Token> {
        let timeout = match timeout {
            None => PollTimeout::NONE,
            // Rounded up, so that a deadline has passed when the wait ends for it.
            Some(t) => PollTimeout::try_from(t.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX),
        };
        match poll(&mut self.fds, timeout) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Vec::new(),
            // EFAULT, EINVAL, ENOMEM: none can be helped; a pause keeps the loop from spinning.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(100));
                return Vec::new();
            }
        }
        let ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        self.tokens.into_iter().zip(&self.fds).filter(|(_, fd)| ready(fd)).map(|(token, _)| token).collect()
    }
}
