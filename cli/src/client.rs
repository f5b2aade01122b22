//! The API's client: typed requests over one or several endpoints. A read goes to the next endpoint when
//! one does not answer. A write carries an idempotency key and is repeated with the same key, so that it
//! happens once, until it is answered or a bounded time is over; then its outcome is *unknown*.

mod attempts;
pub mod endpoint;
pub mod events;
pub mod health;
pub mod path;
#[cfg(test)]
pub mod test_server;
mod transport;
pub mod upload;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use holm_api::{List, header, list};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper::{Method, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use self::attempts::{Answer, Call};
pub use self::endpoint::Endpoint;
use crate::error::Error;
use crate::output::record::DEFAULT_PROJECT;

/// How long one request is tried before the operator is told.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a change is made anew because the record changed meanwhile.
const AMEND_TRIES: u32 = 10;

/// A client of one cluster.
pub struct Client {
    endpoints: Vec<Endpoint>,
    /// Which endpoint answered last; it is asked first.
    current: AtomicUsize,
    /// The newest revision an answer carried; 0 before the first.
    revision: AtomicU64,
    patience: Duration,
    stale: bool,
    /// Sent with every request when it is not the default one.
    project: Option<String>,
}

impl Client {
    /// A client that tries `endpoints` in order.
    ///
    /// # Panics
    /// Without endpoints.
    pub fn new(endpoints: Vec<Endpoint>) -> Self {
        assert!(!endpoints.is_empty(), "`Endpoint::choose` always gives one");
        Self {
            endpoints,
            current: AtomicUsize::new(0),
            revision: AtomicU64::new(0),
            patience: PATIENCE,
            stale: false,
            project: None,
        }
    }

    /// The same, reading what a node knows by itself if `stale`.
    pub fn with_stale(self, stale: bool) -> Self {
        Self { stale, ..self }
    }

    /// The same, for this project.
    pub fn with_project(self, name: &str) -> Self {
        Self { project: Some(name.to_owned()).filter(|name| name != DEFAULT_PROJECT), ..self }
    }

    /// The same, giving up after `patience`.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// All endpoints, in the order written.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// The newest revision seen, if any answer carried one.
    pub fn revision(&self) -> Option<u64> {
        Some(self.revision.load(Ordering::Relaxed)).filter(|revision| *revision > 0)
    }

    fn learn(&self, revision: u64) {
        self.revision.fetch_max(revision, Ordering::Relaxed);
    }

    /// Reads one record.
    ///
    /// # Errors
    /// The cluster's problem, or [`Error::Unreachable`].
    pub async fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T, Error> {
        let target = if self.stale { path::stale(target) } else { target.to_owned() };
        let answer = self.exchange(Call::read(&target)).await?;
        self.parse(&answer)
    }

    /// Reads a record that may not be there.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn find<T: DeserializeOwned>(&self, target: &str) -> Result<Option<T>, Error> {
        match self.get(target).await {
            Ok(record) => Ok(Some(record)),
            Err(Error::Problem(problem)) if problem.code == holm_api::Code::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a whole list, page by page. `query` is any of the API's list queries, without its marker.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        let mut marker: Option<String> = None;
        loop {
            let limit = list::MAX_LIMIT.to_string();
            let mut more = vec![("limit", limit.as_str())];
            more.extend(marker.as_deref().map(|marker| ("marker", marker)));
            let page: List<T> = self.get(&path::with_query(path, query, &more)).await?;
            self.learn(page.revision);
            items.extend(page.items);
            match page.next {
                Some(next) if Some(&next) != marker.as_ref() => marker = Some(next),
                _ => return Ok(items),
            }
        }
    }

    /// Reads an answer whose body goes on: a log, or events. The body is the caller's to read.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn open(&self, target: &str) -> Result<Response<Incoming>, Error> {
        match self.exchange(Call { open: true, ..Call::read(target) }).await? {
            Answer::Open(response) => Ok(response),
            Answer::Whole { .. } => unreachable!("an opened call is answered by an open body"),
        }
    }

    /// Turns a request into a two-way byte stream.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn upgrade(&self, target: &str, protocol: &'static str) -> Result<Upgraded, Error> {
        let call = Call { open: true, upgrade: Some(protocol), ..Call::read(target) };
        let Answer::Open(response) = self.exchange(call).await? else {
            unreachable!("an opened call is answered by an open body");
        };
        hyper::upgrade::on(response).await.map_err(|error| Error::Unreachable {
            detail: format!("the node did not hand over the stream: {error}"),
            hint: Some("check that the endpoint is a Holm API and no proxy stands between".into()),
        })
    }

    /// Writes: `body` to `target`, once, whatever happens on the way. `look` is the command that shows
    /// whether it happened.
    ///
    /// # Errors
    /// The cluster's problem; [`Error::Unreachable`] when nothing was changed; [`Error::OutcomeUnknown`].
    pub async fn write<T: DeserializeOwned>(
        &self,
        method: Method,
        target: &str,
        body: &impl Serialize,
        look: &str,
    ) -> Result<T, Error> {
        self.write_matching(None, method, target, body, look).await
    }

    /// Reads the record at `target`, makes a change from it and writes that, again from the beginning when
    /// somebody else changed the record in between.
    ///
    /// # Errors
    /// As [`Client::get`] and [`Client::write`], and what `change` refuses.
    pub async fn amend<R: DeserializeOwned, B: Serialize>(
        &self,
        method: Method,
        target: &str,
        look: &str,
        revision: impl Fn(&R) -> u64,
        change: impl Fn(&R) -> Result<B, Error>,
    ) -> Result<R, Error> {
        let mut tries = AMEND_TRIES;
        loop {
            let record: R = self.get(target).await?;
            let body = change(&record)?;
            tries -= 1;
            match self.write_matching(Some(revision(&record)), method.clone(), target, &body, look).await {
                Err(Error::Problem(problem))
                    if problem.code == holm_api::Code::RevisionMismatch && tries > 0 => {}
                outcome => return outcome,
            }
        }
    }

    async fn write_matching<T: DeserializeOwned>(
        &self,
        matching: Option<u64>,
        method: Method,
        target: &str,
        body: &impl Serialize,
        look: &str,
    ) -> Result<T, Error> {
        let body = serde_json::to_vec(body).expect("the API's types are JSON");
        let body = if body == b"null" { Bytes::new() } else { Bytes::from(body) };
        let key = Some(Uuid::new_v4().to_string());
        let call = Call { method, body, key, matching, look: look.into(), ..Call::read(target) };
        let answer = self.exchange(call).await?;
        self.parse(&answer)
    }

    fn parse<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, Error> {
        let Answer::Whole { endpoint, bytes } = answer else {
            unreachable!("only opened calls leave the body unread");
        };
        serde_json::from_slice(bytes).map_err(|error| Error::Unreachable {
            detail: format!("{endpoint} answers, but not as a Holm API of this version: {error}"),
            hint: Some("check the address, and that `holm --version` is the daemons' version".into()),
        })
    }

    fn learn_from(&self, headers: &hyper::HeaderMap) {
        let revision = headers.get(header::REVISION).and_then(|value| value.to_str().ok());
        if let Some(revision) = revision.and_then(|text| text.parse().ok()) {
            self.learn(revision);
        }
    }
}
