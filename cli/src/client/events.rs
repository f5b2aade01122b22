//! The cluster's events as they happen: server-sent events, resumed on another node after the last one
//! seen when a connection breaks, so that none is missed and none comes twice.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use holm_api::{Code, Event, EventsQuery};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{sleep, timeout};

use super::{Client, path};
use crate::error::Error;

/// More than this without a complete event is not an event stream.
const BUFFER_MAX: usize = 1 << 20;
/// Nodes send a sign of life every 15 s; a stream without any is broken, whatever TCP says.
const SILENCE_LIMIT: Duration = Duration::from_secs(45);
/// Pause before a broken stream is opened again.
const REOPEN_PAUSE: Duration = Duration::from_millis(200);

/// A stream of events; never ends by itself.
pub struct Events<'a> {
    client: &'a Client,
    body: Option<Incoming>,
    parser: Parser,
    /// Events parsed and not yet taken.
    ready: VecDeque<Event>,
    since: Option<u64>,
    last: Option<(u64, u32)>,
}

impl<'a> Events<'a> {
    /// Events after revision `since`; without it, from now on.
    pub fn new(client: &'a Client, since: Option<u64>) -> Self {
        Self { client, body: None, parser: Parser::default(), ready: VecDeque::new(), since, last: None }
    }

    /// Opens the stream unless it is open, so that from here on no event is missed.
    ///
    /// # Errors
    /// The cluster's problem (`compacted` when `since` is too old), or [`Error::Unreachable`].
    pub async fn open(&mut self) -> Result<(), Error> {
        if self.body.is_some() {
            return Ok(());
        }
        // The rest of the last revision may be outstanding: ask for it again, skip what was seen.
        let since = self.last.map(|(revision, _)| revision.saturating_sub(1)).or(self.since);
        let query = EventsQuery { since, follow: Some(true), limit: None };
        let response = self.client.open(&path::with_query("/v1/events", &query, &[])).await?;
        self.parser = Parser::default();
        self.body = Some(response.into_body());
        Ok(())
    }

    /// The next event, however long that takes. May be dropped and called again.
    ///
    /// # Errors
    /// As [`Events::open`].
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                let place = (event.revision, event.n);
                if self.last.is_none_or(|last| place > last) {
                    self.last = Some(place);
                    return Ok(event);
                }
            }
            let Some(body) = &mut self.body else {
                self.open().await?;
                continue;
            };
            match timeout(SILENCE_LIMIT, body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    self.ready.extend(self.parser.push(&data)?);
                }
                Ok(Some(Err(_)) | None) | Err(_) => {
                    self.body = None;
                    sleep(REOPEN_PAUSE).await;
                }
            }
        }
    }
}

/// Whether a problem says that the events asked for are gone.
pub fn is_compacted(error: &Error) -> bool {
    matches!(error, Error::Problem(problem) if problem.code == Code::Compacted)
}

/// Turns the bytes of a `text/event-stream` into events.
#[derive(Default)]
struct Parser {
    buffer: BytesMut,
    /// `data:` lines of the event being read.
    data: String,
    /// Its `event:` line.
    name: String,
}

impl Parser {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, Error> {
        let foreign = |why: String| Error::Unreachable {
            detail: format!("the stream of events cannot be read: {why}"),
            hint: Some("check that `holm --version` is the daemons' version".into()),
        };
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line = self.buffer.split_to(end);
            self.buffer.advance(1);
            let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned();
            if !line.is_empty() {
                self.field(&line);
                continue;
            }
            let data = std::mem::take(&mut self.data);
            let name = std::mem::take(&mut self.name);
            if data.is_empty() {
                continue;
            }
            if let Ok(problem) = serde_json::from_str(&data) {
                return Err(Error::Problem(Box::new(problem)));
            }
            match serde_json::from_str(&data) {
                Ok(event) => events.push(event),
                // A later version may announce other things between the events.
                Err(_) if !name.is_empty() => {}
                Err(error) => return Err(foreign(error.to_string())),
            }
        }
        if self.buffer.len() + self.data.len() > BUFFER_MAX {
            return Err(foreign("an event is larger than 1 MiB".into()));
        }
        Ok(events)
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data += value;
            }
            "event" => self.name = value.into(),
            // A comment (keep-alive), or an id: the event carries its own.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(revision: u64) -> String {
        format!(
            r#"{{"revision":{revision},"n":0,"at":"2026-11-30T12:00:00.000Z","kind":"vm","id":"i","name":"web","what":"created","message":"","actor":"admin"}}"#
        )
    }

    #[test]
    fn events_are_found_however_the_bytes_are_cut() {
        let text = format!(": hello\r\n\r\nid: 7\r\ndata: {}\r\n\r\nid: 8\ndata: {}\n\n", data(7), data(8));
        for cut in 0..text.len() {
            let mut parser = Parser::default();
            let mut events = parser.push(&text.as_bytes()[..cut]).unwrap();
            events.extend(parser.push(&text.as_bytes()[cut..]).unwrap());
            assert_eq!(events.iter().map(|event| event.revision).collect::<Vec<_>>(), [7, 8], "cut at {cut}");
        }
    }

    #[test]
    fn keep_alives_and_unknown_announcements_are_skipped() {
        let mut parser = Parser::default();
        let events = parser.push(b":\n\n: keep-alive\n\nevent: news\ndata: {\"x\":1}\n\n").unwrap();
        assert_eq!(events, []);
    }

    #[test]
    fn what_is_no_event_is_said() {
        let error = Parser::default().push(b"data: <html>\n\n").unwrap_err();
        assert_eq!(error.exit_code(), 3);
        let error = Parser::default().push(&vec![b'x'; BUFFER_MAX + 1]).unwrap_err();
        assert!(error.to_string().contains("larger than 1 MiB"), "{error}");
    }
}
