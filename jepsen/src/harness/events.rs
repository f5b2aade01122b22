//! Follows `/v1/events` of one node across its deaths: resumes at the last revision that came whole, as a
//! client of the REST API is told to. What is collected must therefore be gap-free and without repetition.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use holm_api::{Event, List};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::client::{Client, Endpoint, open};
use super::wait::wait_for;

/// A stream sends something, if only a comment, more often than this.
const SILENCE_LIMIT: Duration = Duration::from_secs(40);
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);

/// What one node's stream gave.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stream {
    pub node: String,
    /// Events of whole revisions, in the order in which they came.
    pub events: Vec<Event>,
    /// The revision to resume from.
    pub at: u64,
    /// How often it had to connect.
    pub connections: u64,
    /// Why it could not go on, if it could not: some events are then missing.
    pub broken: Option<String>,
}

/// Follows in the background until dropped or taken.
#[derive(Debug)]
pub struct Follower {
    stream: Arc<Mutex<Stream>>,
    task: JoinHandle<()>,
}

impl Follower {
    /// Begins after revision `since`.
    pub fn start(node: &str, address: impl Into<Endpoint>, since: u64) -> Self {
        let stream = Stream { node: node.to_owned(), at: since, ..Stream::default() };
        let stream = Arc::new(Mutex::new(stream));
        Self { stream: stream.clone(), task: tokio::spawn(follow(address.into(), stream)) }
    }

    /// The revision up to which everything has come, as far as events tell.
    pub fn at(&self) -> u64 {
        lock(&self.stream).at
    }

    /// Stops following.
    pub fn finish(self) -> Stream {
        self.task.abort();
        lock(&self.stream).clone()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until every follower has got what the cluster has now, and takes what they got.
///
/// # Errors
/// When the cluster cannot be asked.
pub async fn drain(client: &mut Client, followers: Vec<Follower>, limit: Duration) -> Result<Vec<Stream>> {
    let mut target = followers.iter().map(Follower::at).min().unwrap_or_default();
    loop {
        let page: List<Event> =
            client.get(&format!("/v1/events?follow=false&limit=1000&since={target}")).await?;
        target = page.items.last().map_or(target, |event| event.revision);
        if page.next.is_none() {
            break;
        }
    }
    // A stream that never gets there is for the checker to show.
    let _ = wait_for("all event streams", limit, || async {
        Ok(followers.iter().all(|follower| follower.at() >= target).then_some(()))
    })
    .await;
    let mut streams: Vec<_> = followers.into_iter().map(Follower::finish).collect();
    for stream in &mut streams {
        // Later ones may have reached some nodes only.
        stream.events.retain(|event| event.revision <= target);
    }
    Ok(streams)
}

async fn follow(address: Endpoint, stream: Arc<Mutex<Stream>>) {
    while lock(&stream).broken.is_none() {
        let since = {
            let mut stream = lock(&stream);
            stream.connections += 1;
            stream.at
        };
        if let Some(broken) = once(&address, since, &stream).await {
            lock(&stream).broken = Some(broken);
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

/// One connection. Gives a reason when it makes no sense to come back.
async fn once(address: &Endpoint, since: u64, stream: &Mutex<Stream>) -> Option<String> {
    let mut sender = open(address).await.ok()?;
    let request = Request::get(format!("/v1/events?since={since}"))
        .header("host", address.to_string())
        .header("accept", "text/event-stream")
        .body(Full::new(Bytes::new()))
        .ok()?;
    let response = timeout(SILENCE_LIMIT, sender.send_request(request)).await.ok()?.ok()?;
    let status = response.status();
    let mut body = response.into_body();
    if status.is_client_error() {
        return Some(format!("events after revision {since}: {status}"));
    }
    let mut parser = Parser::default();
    while let Ok(Some(Ok(frame))) = timeout(SILENCE_LIMIT, body.frame()).await {
        let Ok(data) = frame.into_data() else { continue };
        for message in parser.push(&data) {
            if message.event == "compacted" {
                return Some(message.data);
            }
            let event = match serde_json::from_str(&message.data) {
                Ok(event) => event,
                Err(error) => return Some(format!("{error} in {:?}", message.data)),
            };
            parser.whole.push(event);
            // Only the last event of a revision has an id: until then it may be cut short and come again.
            if let Some(id) = message.id {
                let mut stream = lock(stream);
                stream.events.append(&mut parser.whole);
                stream.at = id;
            }
        }
    }
    None
}

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Message {
    event: String,
    data: String,
    id: Option<u64>,
}

#[derive(Default)]
struct Parser {
    buffer: Vec<u8>,
    /// Events of the revision that has not ended yet.
    whole: Vec<Event>,
}

impl Parser {
    fn push(&mut self, bytes: &[u8]) -> Vec<Message> {
        self.buffer.extend(bytes);
        let mut messages = Vec::new();
        while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
            let text: Vec<u8> = self.buffer.drain(..end + 2).collect();
            let text = String::from_utf8_lossy(&text);
            let mut message = Message::default();
            for line in text.lines() {
                if let Some(data) = line.strip_prefix("data:") {
                    message.data.push_str(data.trim_start());
                } else if let Some(event) = line.strip_prefix("event:") {
                    message.event = event.trim().to_owned();
                } else if let Some(id) = line.strip_prefix("id:") {
                    message.id = id.trim().parse().ok();
                }
            }
            if !message.data.is_empty() {
                messages.push(message);
            }
        }
        messages
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_wherever_the_stream_is_cut() {
        let text = ":\n\nevent: vm\ndata: {\"a\":1}\n\nevent: vm\ndata: {\"a\":2}\nid: 7\n\n";
        let message = |data: &str, id| Message { event: "vm".into(), data: data.into(), id };
        for cut in 0..text.len() {
            let mut parser = Parser::default();
            let mut found = parser.push(&text.as_bytes()[..cut]);
            found.extend(parser.push(&text.as_bytes()[cut..]));
            assert_eq!(found, [message("{\"a\":1}", None), message("{\"a\":2}", Some(7))], "cut at {cut}");
        }
    }
}
