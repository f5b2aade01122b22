//! The API of one Cloud Hypervisor process: HTTP/1.1 over a Unix socket, one connection, one call at a
//! time, never blocking. The shim polls it beside everything else, so a VMM that hangs its API holds up
//! nothing. A call that takes long is *unanswered*, never *failed*: there is no time-out here, only the
//! time it has waited so far.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Deserialize;

/// Answers are a few KiB; one beyond this is not from Cloud Hypervisor.
const ANSWER_LIMIT: usize = 1 << 20;

/// A call to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// With the VM's configuration as JSON.
    Create(String),
    Boot,
    Info,
    PowerButton,
}

impl Call {
    fn method(&self) -> &'static str {
        match self {
            Call::Info => "GET",
            Call::Create(_) | Call::Boot | Call::PowerButton => "PUT",
        }
    }

    /// Its name in the API, for messages too.
    pub fn name(&self) -> &'static str {
        match self {
            Call::Create(_) => "vm.create",
            Call::Boot => "vm.boot",
            Call::Info => "vm.info",
            Call::PowerButton => "vm.power-button",
        }
    }

    fn request(&self) -> Vec<u8> {
        let head = format!("{} /api/v1/{} HTTP/1.1\r\nHost: localhost\r\n", self.method(), self.name());
        match self {
            Call::Create(body) => format!(
                "{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ),
            Call::Boot | Call::Info | Call::PowerButton => format!("{head}\r\n"),
        }
        .into_bytes()
    }
}

/// What came of a call.
#[derive(Debug)]
pub struct Answer {
    pub call: Call,
    /// The body, or why there is none.
    pub result: Result<Vec<u8>, CallError>,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Cloud Hypervisor said no; its chain of reasons, joined.
    #[error("{0}")]
    Refused(String),
    /// The connection broke, so the outcome is unknown. Mostly the process is gone too.
    #[error("the connection to Cloud Hypervisor broke")]
    Broken(#[source] io::Error),
}

/// State of the VM as `vm.info` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum State {
    Created,
    Running,
    Shutdown,
    Paused,
    BreakPoint,
}

/// Reads the state out of a `vm.info` body.
pub fn state_of(body: &[u8]) -> Option<State> {
    #[derive(Deserialize)]
    struct Info {
        state: State,
    }
    serde_json::from_slice::<Info>(body).ok().map(|info| info.state)
}

/// The connection and the calls that wait for it.
pub struct Client {
    socket: PathBuf,
    connection: Option<UnixStream>,
    waiting: VecDeque<Call>,
    current: Option<InFlight>,
}

struct InFlight {
    call: Call,
    since: Instant,
    request: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
}

impl Client {
    /// A client of the API at `socket`; connects with its first call.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket, connection: None, waiting: VecDeque::new(), current: None }
    }

    /// Queues `call`, unless an equal one waits already.
    pub fn submit(&mut self, call: Call, now: Instant) {
        if !self.waiting.contains(&call) {
            self.waiting.push_back(call);
        }
        self.begin_next(now);
    }

    /// The call that waits for its answer, and for how long.
    pub fn unanswered(&self, now: Instant) -> Option<(&'static str, Duration)> {
        self.current.as_ref().map(|c| (c.call.name(), now.saturating_duration_since(c.since)))
    }

    /// The connection to poll, and whether for writing too; none while idle, so that an idle VMM costs
    /// nothing.
    pub fn interest(&self) -> Option<(BorrowedFd<'_>, bool)> {
        let current = self.current.as_ref()?;
        Some((self.connection.as_ref()?.as_fd(), current.sent < current.request.len()))
    }

    /// Moves the current call on as far as it goes without blocking.
    pub fn pump(&mut self, now: Instant) -> Option<Answer> {
        let current = self.current.as_mut()?;
        let outcome = match self.connection.as_mut() {
            None => Err(io::Error::from(io::ErrorKind::NotConnected)),
            Some(connection) => exchange(connection, current),
        };
        let result = match outcome {
            Ok(None) => return None,
            Ok(Some(result)) => result,
            Err(e) => {
                self.connection = None;
                Err(CallError::Broken(e))
            }
        };
        let call = self.current.take().map(|c| c.call)?;
        self.begin_next(now);
        Some(Answer { call, result })
    }

    fn begin_next(&mut self, now: Instant) {
        if self.current.is_some() {
            return;
        }
        let Some(call) = self.waiting.pop_front() else { return };
        if self.connection.is_none() {
            // On failure the next `pump` reports the call as broken.
            self.connection =
                UnixStream::connect(&self.socket).and_then(|s| s.set_nonblocking(true).map(|()| s)).ok();
        }
        let request = call.request();
        self.current = Some(InFlight { call, since: now, request, sent: 0, received: Vec::new() });
    }

    /// True when a call waits that could not even be sent, so that polling would wait for ever.
    pub fn is_stuck(&self) -> bool {
        self.current.is_some() && self.connection.is_none()
    }
}

/// Writes what is left of the request and reads what there is of the answer.
fn exchange(
    connection: &mut UnixStream,
    call: &mut InFlight,
) -> io::Result<Option<Result<Vec<u8>, CallError>>> {
    while call.sent < call.request.len() {
        match connection.write(&call.request[call.sent..]) {
            Ok(n) => call.sent += n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    let mut buffer = [0; 16 * 1024];
    loop {
        match connection.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => call.received.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if let Some(answer) = parse(&call.received)? {
            return Ok(Some(answer));
        }
        if call.received.len() > ANSWER_LIMIT {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "answer too large"));
        }
    }
}

/// The whole answer, once it is there.
fn parse(received: &[u8]) -> io::Result<Option<Result<Vec<u8>, CallError>>> {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut headers);
    let invalid = |e: httparse::Error| io::Error::new(io::ErrorKind::InvalidData, e);
    let head_len = match response.parse(received).map_err(invalid)? {
        httparse::Status::Complete(n) => n,
        httparse::Status::Partial => return Ok(None),
    };
    let body_len = response
        .headers
        .iter()
        .find(|h| h.name.eq_ignore_ascii_case("content-length"))
        .and_then(|h| std::str::from_utf8(h.value).ok()?.trim().parse::<usize>().ok())
        .unwrap_or(0);
    let Some(body) = received.get(head_len..head_len.saturating_add(body_len)) else { return Ok(None) };
    Ok(Some(match response.code {
        Some(200..=299) => Ok(body.to_vec()),
        code => Err(CallError::Refused(refusal(code.unwrap_or(0), body))),
    }))
}

/// Error bodies are arrays of strings, outermost first.
fn refusal(code: u16, body: &[u8]) -> String {
    match serde_json::from_slice::<Vec<String>>(body) {
        Ok(chain) if !chain.is_empty() => chain.join(": "),
        _ if body.is_empty() => format!("HTTP status {code}"),
        _ => format!("HTTP status {code}: {}", String::from_utf8_lossy(body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_parts_is_complete_only_with_its_last_byte() {
        let whole = b"HTTP/1.1 200 \r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n{\"state\":\"Running\"}";
        for cut in 0..whole.len() {
            assert!(parse(&whole[..cut]).expect("valid so far").is_none(), "cut at {cut}");
        }
        let body = parse(whole).expect("valid").expect("complete").expect("200");
        assert_eq!(state_of(&body), Some(State::Running));
    }

    #[test]
    fn an_answer_without_a_body_is_complete_after_its_head() {
        let answer = parse(b"HTTP/1.1 204 \r\nServer: Cloud Hypervisor API\r\n\r\n").expect("valid");
        assert_eq!(answer.expect("complete").expect("204"), b"");
    }

    #[test]
    fn a_refusal_joins_the_chain_of_reasons() {
        let answer = parse(b"HTTP/1.1 500 \r\nContent-Length: 31\r\n\r\n[\"VM could not boot\",\"no such\"]");
        let error = answer.expect("valid").expect("complete").expect_err("500");
        assert_eq!(error.to_string(), "VM could not boot: no such");
    }
}
