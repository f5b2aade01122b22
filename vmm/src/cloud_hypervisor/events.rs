//! The event monitor of Cloud Hypervisor: pretty-printed JSON objects one after another, not lines. Only
//! the names of events are of use; what is true now is asked from `vm.info`.

use serde::Deserialize;

/// One object is about 150 bytes; more than this without an end is not an event stream.
const BUFFER_LIMIT: usize = 64 * 1024;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Event {
    /// `vmm`, `vm`, or a device.
    pub source: String,
    /// `booted`, `shutdown`, `rebooting`, `rebooted`, `paused` …
    pub event: String,
}

/// Cuts a stream of bytes into events.
#[derive(Default)]
pub struct Parser {
    buffer: Vec<u8>,
}

impl Parser {
    /// Takes more bytes and returns the events that are complete. Bytes that are no event are dropped.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        let mut stream = serde_json::Deserializer::from_slice(&self.buffer).into_iter::<Event>();
        let mut taken = 0;
        let mut broken = false;
        loop {
            match stream.next() {
                Some(Ok(event)) => {
                    events.push(event);
                    taken = stream.byte_offset();
                }
                Some(Err(e)) => {
                    broken = !e.is_eof();
                    break;
                }
                None => break,
            }
        }
        self.buffer.drain(..taken);
        if broken || self.buffer.len() > BUFFER_LIMIT {
            self.buffer.clear();
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "{\n  \"timestamp\": {\n    \"secs\": 0,\n    \"nanos\": 9\n  },\n  \"source\": \"vm\",\n  \"event\": \"booted\",\n  \"properties\": null\n}\n\n{\n  \"timestamp\": {\n    \"secs\": 0,\n    \"nanos\": 10\n  },\n  \"source\": \"vm\",\n  \"event\": \"rebooting\",\n  \"properties\": {\"a\": \"}\"}\n}\n\n";

    #[test]
    fn events_come_out_whole_wherever_the_stream_is_cut() {
        for cut in 0..TWO.len() {
            let mut parser = Parser::default();
            let mut events = parser.push(&TWO.as_bytes()[..cut]);
            events.extend(parser.push(&TWO.as_bytes()[cut..]));
            let names: Vec<_> = events.iter().map(|e| e.event.as_str()).collect();
            assert_eq!(names, ["booted", "rebooting"], "cut at {cut}");
        }
    }

    #[test]
    fn rubbish_is_dropped_and_does_not_accumulate() {
        let mut parser = Parser::default();
        assert_eq!(parser.push(b"not json"), []);
        assert_eq!(parser.push(TWO.as_bytes()).len(), 2);
        for _ in 0..100 {
            parser.push(&[b'[', b'"'].repeat(4096));
        }
        assert!(parser.buffer.len() <= BUFFER_LIMIT);
    }
}
