//! `shim.sock`: takes requests line by line, keeps who waits for what, and sends status lines. A client
//! that is slow or sends rubbish is dropped; none is waited for.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use super::poll::{PollSet, Token};
use super::protocol::{Op, Request, Status, VERSION};
use crate::lease::Lease;
use crate::vm_state::Phase;

/// Clients at once. The daemon has two or three.
const MAX_CLIENTS: usize = 32;
/// A request is some dozen bytes.
const LINE_LIMIT: usize = 4096;
/// How long a status request waits for the VMM's own word before the answer says that it is missing.
pub const PROBE_PATIENCE: Duration = Duration::from_secs(2);

/// The control socket and its clients.
pub struct Control {
    listener: UnixListener,
    clients: Vec<Client>,
    next_id: u64,
}

struct Client {
    id: u64,
    stream: UnixStream,
    received: Vec<u8>,
    waits_for: Option<Wait>,
    watches: bool,
}

/// What a client's next answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Probe { until: Instant },
    Start,
}

/// A request that the shim itself has to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Ask the VMM how it is.
    Probe,
    Stop {
        timeout: Duration,
    },
    Kill,
    /// To be answered to `client` when it is in force or refused.
    Arm {
        client: u64,
        lease: Lease,
    },
    /// The same.
    Disarm {
        client: u64,
    },
}

impl Control {
    /// Serves `listener`.
    pub fn new(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, clients: Vec::new(), next_id: 0 })
    }

    /// Registers what it waits for.
    pub fn register<'a>(&'a self, set: &mut PollSet<'a>) {
        set.add(Token::ControlListener, self.listener.as_fd(), true, false);
        for client in &self.clients {
            set.add(Token::ControlClient(client.id), client.stream.as_fd(), true, false);
        }
    }

    /// When the next answer is due whatever happens.
    pub fn deadline(&self) -> Option<Instant> {
        self.clients
            .iter()
            .filter_map(|c| match c.waits_for {
                Some(Wait::Probe { until }) => Some(until),
                Some(Wait::Start) | None => None,
            })
            .min()
    }

    /// Accepts new clients.
    pub fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() >= MAX_CLIENTS || stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.next_id += 1;
            self.clients.push(Client {
                id: self.next_id,
                stream,
                received: Vec::new(),
                waits_for: None,
                watches: false,
            });
        }
    }

    /// Reads requests of one client; answers at once what can be, and returns what the shim has to do.
    pub fn serve_client(&mut self, id: u64, status: &Status, now: Instant) -> Vec<Demand> {
        let Some(client) = self.clients.iter_mut().find(|c| c.id == id) else { return Vec::new() };
        let (lines, mut open) = client.read_lines();
        let mut demands = Vec::new();
        for line in lines {
            open &= match serde_json::from_slice::<Request>(&line) {
                Ok(Request { op, .. }) => client.take(op, status, now, &mut demands),
                Err(e) => {
                    let error = Some(format!("request not understood by protocol version {VERSION}: {e}"));
                    client.send(&Status { error, ..status.clone() })
                }
            };
        }
        if !open {
            self.clients.retain(|c| c.id != id);
        }
        demands
    }

    /// Tells those who watch, and those who waited for the start if it is over.
    pub fn publish(&mut self, status: &Status) {
        let started = status.phase != Phase::Starting;
        self.clients.retain_mut(|client| {
            let due = client.watches || (started && client.waits_for == Some(Wait::Start));
            if started && client.waits_for == Some(Wait::Start) {
                client.waits_for = None;
            }
            !due || client.send(status)
        });
    }

    /// Answers one client.
    pub fn answer(&mut self, client: u64, status: &Status) {
        self.clients.retain_mut(|one| one.id != client || one.send(status));
    }

    /// Answers those who waited for the VMM's word: all of them when it is there, else those whose
    /// patience is over.
    pub fn answer_probes(&mut self, status: &Status, now: Instant, answered: bool) {
        self.clients.retain_mut(|client| match client.waits_for {
            Some(Wait::Probe { until }) if answered || now >= until => {
                client.waits_for = None;
                client.send(status)
            }
            _ => true,
        });
    }
}

impl Client {
    fn take(&mut self, op: Op, status: &Status, now: Instant, demands: &mut Vec<Demand>) -> bool {
        match op {
            Op::Status => {
                self.waits_for = Some(Wait::Probe { until: now + PROBE_PATIENCE });
                demands.push(Demand::Probe);
                true
            }
            Op::AwaitStart if status.phase != Phase::Starting => self.send(status),
            Op::AwaitStart => {
                self.waits_for = Some(Wait::Start);
                true
            }
            Op::Watch => {
                self.watches = true;
                self.send(status)
            }
            Op::Stop { timeout_s } => {
                demands.push(Demand::Stop { timeout: Duration::from_secs(timeout_s.into()) });
                self.send(status)
            }
            Op::Kill => {
                demands.push(Demand::Kill);
                self.send(status)
            }
            Op::Arm { file, lease } => {
                demands.push(Demand::Arm { client: self.id, lease: Lease { file, id: lease } });
                true
            }
            Op::Disarm => {
                demands.push(Demand::Disarm { client: self.id });
                true
            }
        }
    }

    /// Whole lines received, and whether the client is still there.
    fn read_lines(&mut self) -> (Vec<Vec<u8>>, bool) {
        let mut buffer = [0; 1024];
        let open = loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => break false,
                Ok(n) => self.received.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break e.kind() == io::ErrorKind::WouldBlock,
            }
            if self.received.len() > LINE_LIMIT {
                break false;
            }
        };
        let mut lines = Vec::new();
        while let Some(end) = self.received.iter().position(|b| *b == b'\n') {
            lines.push(self.received.drain(..=end).collect());
        }
        (lines, open)
    }

    /// Sends a line; false when it does not fit the socket, because the client does not read.
    fn send(&mut self, status: &Status) -> bool {
        let Ok(mut line) = serde_json::to_vec(status) else { return false };
        line.push(b'\n');
        self.stream.write_all(&line).is_ok()
    }
}
