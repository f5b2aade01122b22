//! The guest's serial console. The shim makes a pseudo terminal and gives its far end to the VMM as
//! standard input and output; what the guest prints goes to the scribe's bounded log and to every reader of
//! `console.sock`, what the one writer among them types goes to the guest.
//!
//! Why not Cloud Hypervisor's own `Pty` mode: it holds output back for up to 500 ms after each boot and
//! each guest reset, and makes a new terminal for each reset. This one lasts as long as the VMM.
//!
//! A reader that is slow, stopped or dead costs its own bounded queue and nothing else.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use nix::pty::{OpenptyResult, openpty};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

use super::outlet::Outlet;
use super::poll::{PollSet, Token};
use super::scribe::Scribe;

/// Readers at once; one more is turned away.
const MAX_CLIENTS: usize = 16;
/// What is kept for a reader that does not keep up, beside the kernel's socket buffer.
const READER_QUEUE_BYTES: usize = 16 * 1024;
/// What is kept for a guest that does not read; beyond it the writer waits.
const GUEST_QUEUE_BYTES: usize = 4 * 1024;
/// Reads of the terminal before everybody else has a turn.
const READS_A_TURN: usize = 32;

/// The console of one run.
pub struct Console {
    terminal: Option<File>,
    listener: UnixListener,
    clients: Vec<Reader>,
    next_id: u64,
    /// The client that typed first; the others only read until it leaves.
    writer: Option<u64>,
    to_guest: Vec<u8>,
    buffer: Box<[u8]>,
}

struct Reader {
    id: u64,
    outlet: Outlet<UnixStream>,
    told_read_only: bool,
}

/// The far end of the terminal, for the VMM. Two descriptions, because Cloud Hypervisor makes its input
/// non-blocking and its output would follow.
pub struct FarEnd {
    pub input: File,
    pub output: File,
}

impl Console {
    /// Makes the terminal, raw from the start.
    pub fn new(listener: UnixListener) -> io::Result<(Self, FarEnd)> {
        let OpenptyResult { master, slave } = openpty(None, None)?;
        let mut modes = tcgetattr(&slave)?;
        cfmakeraw(&mut modes);
        tcsetattr(&slave, SetArg::TCSANOW, &modes)?;
        close_on_exec(&master)?;
        close_on_exec(&slave)?;
        let name = nix::unistd::ttyname(&slave)?;
        let input = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY | libc::O_CLOEXEC)
            .open(name)?;
        let terminal = File::from(master);
        set_nonblocking(&terminal)?;
        listener.set_nonblocking(true)?;
        let console = Self {
            terminal: Some(terminal),
            listener,
            clients: Vec::new(),
            next_id: 0,
            writer: None,
            to_guest: Vec::new(),
            buffer: vec![0; 8 * 1024].into(),
        };
        Ok((console, FarEnd { input, output: File::from(slave) }))
    }

    /// Registers what it waits for.
    pub fn register<'a>(&'a self, set: &mut PollSet<'a>) {
        if let Some(terminal) = &self.terminal {
            set.add(Token::Terminal, terminal.as_fd(), true, !self.to_guest.is_empty());
        }
        set.add(Token::ConsoleListener, self.listener.as_fd(), true, false);
        let guest_keeps_up = self.to_guest.len() < GUEST_QUEUE_BYTES;
        for client in &self.clients {
            let read = guest_keeps_up || self.writer != Some(client.id);
            let stream = client.outlet.get().as_fd();
            set.add(Token::ConsoleClient(client.id), stream, read, client.outlet.waits());
        }
    }

    /// Moves bytes both ways.
    pub fn serve_terminal(&mut self, scribe: &mut Scribe) {
        self.feed_guest();
        for _ in 0..READS_A_TURN {
            let Some(terminal) = &mut self.terminal else { return };
            match terminal.read(&mut self.buffer) {
                Ok(n) if n > 0 => {
                    scribe.console(&self.buffer[..n]);
                    for client in &mut self.clients {
                        client.outlet.offer(&self.buffer[..n]);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // EIO: nobody holds the far end any more, so the VMM is gone.
                Ok(_) | Err(_) => self.terminal = None,
            }
        }
    }

    fn feed_guest(&mut self) {
        let Some(terminal) = &mut self.terminal else { return };
        while !self.to_guest.is_empty() {
            match terminal.write(&self.to_guest) {
                Ok(n) => drop(self.to_guest.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Takes what the guest printed last, once its VMM is gone.
    pub fn drain(&mut self, scribe: &mut Scribe) {
        // Bounded: the kernel keeps 64 KiB at most for a terminal.
        for _ in 0..64 {
            if self.terminal.is_none() {
                break;
            }
            self.serve_terminal(scribe);
        }
        for client in &mut self.clients {
            client.outlet.flush();
        }
    }

    /// Accepts new readers.
    pub fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() >= MAX_CLIENTS || stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.next_id += 1;
            self.clients.push(Reader {
                id: self.next_id,
                outlet: Outlet::new(stream, READER_QUEUE_BYTES, "this reader"),
                told_read_only: false,
            });
        }
    }

    /// Serves one reader: what it typed, and what waits for it.
    pub fn serve_client(&mut self, id: u64) {
        let Some(client) = self.clients.iter_mut().find(|c| c.id == id) else { return };
        let waits_for_guest = self.writer == Some(id) && self.to_guest.len() >= GUEST_QUEUE_BYTES;
        let had_output = client.outlet.waits();
        let mut open = client.outlet.flush();
        if open && waits_for_guest {
            // Polled for its output only. Ready without any, it has hung up.
            open = had_output;
        } else if open {
            let mut typed = [0; 1024];
            match client.outlet.get_mut().read(&mut typed) {
                Ok(0) => open = false,
                Ok(n) if *self.writer.get_or_insert(id) == id => {
                    self.to_guest.extend_from_slice(&typed[..n]);
                }
                Ok(_) => client.tell_read_only(),
                Err(e) => open = matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
            }
        }
        if !open {
            self.clients.retain(|c| c.id != id);
            if self.writer == Some(id) {
                self.writer = None;
            }
        }
        self.feed_guest();
    }
}

impl Reader {
    fn tell_read_only(&mut self) {
        if !self.told_read_only {
            self.told_read_only = true;
            self.outlet.offer(b"\r\n[holm: another session types on this console; this one only reads]\r\n");
        }
    }
}

fn close_on_exec(fd: &OwnedFd) -> io::Result<()> {
    nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    Ok(())
}

/// Makes reads and writes of `file` return at once.
pub fn set_nonblocking(file: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as it is borrowed.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(file.as_raw_fd()) };
    let flags = nix::fcntl::OFlag::from_bits_retain(nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_GETFL)?);
    nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_SETFL(flags | nix::fcntl::OFlag::O_NONBLOCK))?;
    Ok(())
}
