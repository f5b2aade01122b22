//! The policy of one request over several endpoints: which failures are tried again, where, for how long,
//! and what is true when the time is over.
//!
//! A write that was sent and not answered may have taken effect, so it is repeated with the same key. It
//! carries the revision known *before* it was first sent: should the key meanwhile have left the cluster's
//! window, the cluster refuses the repetition instead of doing it twice.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use holm_api::{Code, Problem, header, problem};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST, HeaderName, IF_MATCH, UPGRADE, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::time::{sleep, timeout};

use super::transport::{Body, Connection, Failure, broken, whole};
use super::{Client, Endpoint, path};
use crate::error::Error;

/// One endpoint is given up after this long when there are others; a node answers a read within 3 s.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(4);
/// A node gives up a write after as long as we do: its own words for it come a little later.
const GRACE: Duration = Duration::from_secs(2);
/// Pause after a round in which no endpoint could answer, doubled each time.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// One request, as often as it has to be made.
pub(super) struct Call {
    pub method: Method,
    pub target: String,
    pub body: Bytes,
    /// Of a write.
    pub key: Option<String>,
    /// Of a write: the revision the record must still have.
    pub matching: Option<u64>,
    /// The command that shows whether a write happened.
    pub look: String,
    /// Leave the answer's body unread.
    pub open: bool,
    /// The protocol to go on with.
    pub upgrade: Option<&'static str>,
}

/// What a daemon answered.
pub(super) enum Answer {
    Whole { endpoint: String, bytes: Bytes },
    Open(Response<Incoming>),
}

/// What one attempt gave: an answer, the cluster's final refusal, or a failure to be tried again.
pub(super) type Attempt<T> = Result<Result<T, Box<Problem>>, Failure>;

impl Call {
    pub fn read(target: &str) -> Self {
        Self {
            method: Method::GET,
            target: target.into(),
            body: Bytes::new(),
            key: None,
            matching: None,
            look: String::new(),
            open: false,
            upgrade: None,
        }
    }

    fn request(&self, client: &Client, endpoint: &Endpoint, seen: Option<u64>) -> Request<Body> {
        let mut request = client.request(&self.method, &self.target, endpoint);
        if !self.body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(protocol) = self.upgrade {
            request = request.header(CONNECTION, "upgrade").header(UPGRADE, protocol);
        }
        if let Some(revision) = self.matching {
            request = request.header(IF_MATCH, format!("\"{revision}\""));
        }
        request = idempotent(request, self.key.as_deref(), seen);
        request
            .body(whole(self.body.clone()))
            .expect("targets are encoded and of bounded length, and headers are ASCII")
    }
}

impl Client {
    /// The start of any request to `endpoint`.
    pub(super) fn request(&self, method: &Method, target: &str, endpoint: &Endpoint) -> Builder {
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(HOST, endpoint.host_header())
            .header(USER_AGENT, concat!("holm/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json, text/event-stream, */*");
        match &self.project {
            Some(project) => request.header(HeaderName::from_static(header::PROJECT), project),
            None => request,
        }
    }
}

/// Adds what makes a write happen once.
pub(super) fn idempotent(mut request: Builder, key: Option<&str>, seen: Option<u64>) -> Builder {
    if let Some(key) = key {
        request = request.header(HeaderName::from_static(header::IDEMPOTENCY_KEY), key);
        if let Some(seen) = seen {
            request = request.header(HeaderName::from_static(header::SEEN), seen);
        }
    }
    request
}

/// The failures of one request, the latest of each endpoint.
#[derive(Default)]
pub(super) struct Trouble {
    failures: Vec<(String, Failure)>,
    may_have_happened: bool,
}

impl Trouble {
    pub fn add(&mut self, endpoint: &Endpoint, failure: Failure) {
        self.may_have_happened |= failure.may_have_happened();
        let endpoint = endpoint.to_string();
        match self.failures.iter_mut().find(|(known, _)| *known == endpoint) {
            Some((_, latest)) => *latest = failure,
            None => self.failures.push((endpoint, failure)),
        }
    }

    /// What to tell the operator. `look` is empty for reads, which change nothing.
    pub fn into_error(self, look: &str) -> Error {
        let listed: Vec<_> = self.failures.iter().map(|(at, failure)| format!("{at}: {failure}")).collect();
        let listed = listed.join("; ");
        if self.may_have_happened && !look.is_empty() {
            return Error::OutcomeUnknown {
                detail: format!("it is not known whether this took effect ({listed})"),
                hint: Some(format!("find out with `{look}` before you repeat it")),
            };
        }
        let any = |wanted: fn(&Failure) -> bool| self.failures.iter().any(|(_, failure)| wanted(failure));
        if any(|failure| matches!(failure, Failure::Unavailable(_) | Failure::Unknown(_))) {
            return Error::Unreachable {
                detail: format!("the cluster cannot answer now ({listed})"),
                hint: Some(match look {
                    "" => "`holm check` shows which nodes are missing; --stale what a node knows by itself"
                        .into(),
                    _ => "nothing was changed; `holm check` shows which nodes are missing".into(),
                }),
            };
        }
        if any(|failure| matches!(failure, Failure::NotHolm(_))) {
            return Error::Unreachable {
                detail: format!("this is not the API of a Holm node ({listed})"),
                hint: Some("check the address: the API is plain HTTP on port 7460 unless configured".into()),
            };
        }
        let hint = match &self.failures[..] {
            [(at, _)] if at.starts_with("unix:") => {
                "is holmd running here, and may you open its socket? Other nodes: --endpoint HOST:PORT"
            }
            [_] => "is holmd running there? Name another node with --endpoint or HOLM_ENDPOINTS",
            _ => "is holmd running there? Check the addresses given by --endpoint or HOLM_ENDPOINTS",
        };
        Error::Unreachable { detail: format!("cannot reach Holm ({listed})"), hint: Some(hint.into()) }
    }
}

impl Client {
    /// Makes `call` until it is answered.
    pub(super) async fn exchange(&self, call: Call) -> Result<Answer, Error> {
        path::check(&call.target)?;
        let start = Instant::now();
        let mut seen = call.key.as_ref().and_then(|_| self.revision());
        let mut trouble = Trouble::default();
        let mut pause = PAUSE.0;
        loop {
            let mut hopeless = true;
            for at in self.order() {
                let left = self.patience.saturating_sub(start.elapsed());
                if left.is_zero() && !trouble.failures.is_empty() {
                    return Err(trouble.into_error(&call.look));
                }
                let limit = if self.endpoints.len() > 1 { ATTEMPT_LIMIT } else { left + GRACE };
                match self.attempt(&self.endpoints[at], &call, &mut seen, limit).await {
                    Ok(Ok(answer)) => {
                        self.current.store(at, Ordering::Relaxed);
                        return Ok(answer);
                    }
                    // The key is too old to tell whether an earlier attempt took effect.
                    Ok(Err(problem)) if problem.code == Code::Expired && trouble.may_have_happened => {
                        return Err(trouble.into_error(&call.look));
                    }
                    Ok(Err(problem)) => return Err(Error::Problem(problem)),
                    Err(failure) => {
                        hopeless &= !failure.may_pass();
                        trouble.add(&self.endpoints[at], failure);
                    }
                }
            }
            // Nobody is there, and nothing is pending: waiting would only hide it.
            let settled = hopeless && !trouble.may_have_happened;
            let left = self.patience.saturating_sub(start.elapsed());
            if settled || left.is_zero() {
                return Err(trouble.into_error(&call.look));
            }
            sleep(pause.min(left)).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Endpoints from the one that answered last.
    pub(super) fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.current.load(Ordering::Relaxed), self.endpoints.len());
        (0..count).map(move |step| (first + step) % count)
    }

    async fn attempt(
        &self,
        endpoint: &Endpoint,
        call: &Call,
        seen: &mut Option<u64>,
        limit: Duration,
    ) -> Attempt<Answer> {
        let start = Instant::now();
        let mut connection = Connection::open(endpoint).await?;
        if call.key.is_some() && seen.is_none() {
            *seen = Some(self.ask_health(&mut connection, endpoint, limit).await?.health.revision);
        }
        let left = limit.saturating_sub(start.elapsed()).max(Duration::from_millis(100));
        let response = connection.send(call.request(self, endpoint, *seen), left).await?;
        self.learn_from(response.headers());
        let status = response.status();
        if call.open && (status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS) {
            return Ok(Ok(Answer::Open(response)));
        }
        let headers = response.headers().clone();
        let bytes = read(response, left).await?;
        judge(status, &headers, &bytes)
            .map(|verdict| verdict.map(|()| Answer::Whole { endpoint: endpoint.to_string(), bytes }))
    }
}

/// The whole body, within `limit`.
pub(super) async fn read(response: Response<Incoming>, limit: Duration) -> Result<Bytes, Failure> {
    match timeout(limit, response.into_body().collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => Err(broken(&error)),
        Err(_) => Err(Failure::NoAnswer("the answer did not end in time".into())),
    }
}

/// What an answer means: it is done, it is refused, or it has to be tried again.
pub(super) fn judge(status: StatusCode, headers: &HeaderMap, bytes: &[u8]) -> Attempt<()> {
    if status.is_success() {
        return Ok(Ok(()));
    }
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let problem =
        media_type.starts_with(problem::MEDIA_TYPE).then(|| serde_json::from_slice::<Problem>(bytes));
    match problem {
        Some(Ok(problem)) => match problem.code {
            Code::Unavailable => Err(Failure::Unavailable(problem.detail)),
            Code::OutcomeUnknown => Err(Failure::Unknown(problem.detail)),
            _ => Ok(Err(Box::new(problem))),
        },
        _ => Err(Failure::NotHolm(format!("it answers with HTTP {status}, not as a Holm node does"))),
    }
}

#[cfg(test)]
#[path = "attempts_tests.rs"]
mod tests;
