//! `holm vm console`: this terminal becomes the guest's, byte for byte, until Ctrl-] or the VM's end. The
//! terminal is put back as it was on every way out; with pipes in its place nothing is changed and the end
//! of the input only ends the input.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use holm_api::header::CONSOLE_PROTOCOL;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use nix::sys::termios::{self, SetArg, Termios};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::vm::Target;
use crate::client::path;
use crate::commands::Context;
use crate::error::Error;
use crate::output::{note, print_bytes};

/// Ctrl-]
const ESCAPE: u8 = 0x1d;

type Stream = TokioIo<Upgraded>;

/// Why the console ended.
enum End {
    Detached,
    /// The node closed it: the VM is off, or its console was taken over.
    Closed,
    Signal,
}

pub async fn run(cx: &Context, typed: &Target) -> Result<(), Error> {
    let target = path::of("vms", &typed.vm, "/console")?;
    let stream = TokioIo::new(cx.client.upgrade(&target, CONSOLE_PROTOCOL).await?);
    let terminal = io::stdin().is_terminal();
    if terminal {
        note(&format!("connected to {}; Ctrl-] detaches", typed.vm));
    }
    let raw = RawTerminal::enter().map_err(Error::Output)?;
    let end = attach(stream, terminal).await;
    drop(raw);
    let end = end?;
    if terminal {
        note(match end {
            End::Detached => "\ndetached",
            End::Closed => "\nthe console was closed by the node",
            End::Signal => "\ninterrupted",
        });
    }
    Ok(())
}

async fn attach(stream: Stream, terminal: bool) -> Result<End, Error> {
    let (mut from_guest, mut to_guest) = split(stream);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        end = show(&mut from_guest) => end,
        end = send(&mut to_guest, terminal) => end,
        _ = terminate.recv() => Ok(End::Signal),
        _ = hangup.recv() => Ok(End::Signal),
        _ = interrupt.recv() => Ok(End::Signal),
    }
}

/// Guest to stdout.
async fn show(from_guest: &mut ReadHalf<Stream>) -> Result<End, Error> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match from_guest.read(&mut buffer).await {
            Ok(0) | Err(_) => return Ok(End::Closed),
            Ok(read) => print_bytes(&buffer[..read])?,
        }
    }
}

/// Stdin to guest. The end of a piped input leaves the output going: `echo q | holm vm console vm` shows
/// what the guest answers.
async fn send(to_guest: &mut WriteHalf<Stream>, terminal: bool) -> Result<End, Error> {
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; 4096];
    loop {
        let read = stdin.read(&mut buffer).await.unwrap_or(0);
        let typed = &buffer[..read];
        if read == 0 {
            if terminal {
                return Ok(End::Detached);
            }
            return std::future::pending().await;
        }
        let escape = typed.iter().position(|byte| terminal && *byte == ESCAPE);
        let wanted = &typed[..escape.unwrap_or(read)];
        if to_guest.write_all(wanted).await.is_err() || to_guest.flush().await.is_err() {
            return Ok(End::Closed);
        }
        if escape.is_some() {
            return Ok(End::Detached);
        }
    }
}

/// The terminal in raw mode, until dropped. Without a terminal, nothing.
struct RawTerminal(Option<Termios>);

impl RawTerminal {
    fn enter() -> io::Result<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(Self(None));
        }
        let before = termios::tcgetattr(stdin.as_fd())?;
        let mut raw = before.clone();
        termios::cfmakeraw(&mut raw);
        termios::tcsetattr(stdin.as_fd(), SetArg::TCSANOW, &raw)?;
        Ok(Self(Some(before)))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = termios::tcsetattr(io::stdin().as_fd(), SetArg::TCSAFLUSH, before);
        }
    }
}
