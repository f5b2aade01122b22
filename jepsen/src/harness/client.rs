//! REST spoken directly, over one kept connection to one node, without failover and without retries: what
//! became of each attempt is exactly what a checker must know. Every failure is one of three: not sent,
//! refused (nothing changed), or unknown.

use std::fmt;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use holm_api::{Code, Problem, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use nix::sched::{CloneFlags, setns};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// A connection on loopback is there within milliseconds, or the daemon is stuck.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Where a daemon serves REST. Its Unix socket needs no network, so no fault of the network reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Tcp(SocketAddr),
    /// Kept for ever, as there is one for each daemon: so an endpoint is as easily handed on as an address.
    Unix(&'static Path),
    /// Over TCP from the network namespace of this file; kept for ever, too.
    From(&'static Path, SocketAddr),
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) | Self::From(_, address) => address.fmt(f),
            Self::Unix(_) => f.write_str("localhost"),
        }
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There was no connection: the request was not sent.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The daemon says that nothing was changed.
    #[error("{}: {} {}", .0.code.as_str(), .0.detail, .0.hint.as_deref().unwrap_or(""))]
    Refused(Box<Problem>),
    /// The request was sent; whether it took effect is not known.
    #[error("unknown: {0}")]
    Unknown(String),
}

impl Error {
    /// The code of a refusal.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(problem) => Some(problem.code),
            Self::NotSent(_) | Self::Unknown(_) => None,
        }
    }
}

/// A success.
#[derive(Clone, Debug)]
pub struct Reply<T> {
    pub body: T,
    /// `Holm-Revision`.
    pub revision: Option<u64>,
    /// `Holm-Duplicate`: answered as it was the first time.
    pub duplicate: bool,
}

/// What to send.
#[derive(Clone, Debug)]
pub struct Call {
    method: Method,
    path: String,
    body: Bytes,
    content_type: &'static str,
    key: Option<String>,
    seen: Option<u64>,
    expected: Option<u64>,
    limit: Duration,
}

impl Call {
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        let limit = Duration::from_secs(15);
        let (body, content_type) = (Bytes::new(), "application/json");
        Self { method, path: path.into(), body, content_type, key: None, seen: None, expected: None, limit }
    }

    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    pub fn post(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self::new(Method::POST, path).json(body)
    }

    pub fn patch(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self::new(Method::PATCH, path).json(body)
    }

    pub fn json(mut self, body: &impl Serialize) -> Self {
        self.body = serde_json::to_vec(body).expect("a request body is plain data").into();
        self
    }

    pub fn bytes(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.content_type = "application/octet-stream";
        self
    }

    /// The idempotency key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The revision at which the client made up its mind: a key that has left the window is then refused.
    pub fn seen(mut self, revision: u64) -> Self {
        self.seen = Some(revision);
        self
    }

    /// Only if the record is still at this revision (`If-Match`).
    pub fn expecting(mut self, revision: u64) -> Self {
        self.expected = Some(revision);
        self
    }

    /// Gives up after this long: the outcome is then unknown.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    fn request(&self, address: &Endpoint) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.path)
            .header("host", address.to_string())
            .header("content-type", self.content_type);
        if let Some(key) = &self.key {
            request = request.header(header::IDEMPOTENCY_KEY, key);
        }
        if let Some(seen) = self.seen {
            request = request.header(header::SEEN, seen);
        }
        if let Some(expected) = self.expected {
            request = request.header("if-match", format!("\"{expected}\""));
        }
        request.body(Full::new(self.body.clone())).expect("a call of ours is well-formed")
    }
}

/// A client of one node.
#[derive(Debug)]
pub struct Client {
    address: Endpoint,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub fn new(address: impl Into<Endpoint>) -> Self {
        Self { address: address.into(), connection: None }
    }

    pub fn address(&self) -> Endpoint {
        self.address
    }

    /// Sends one call and reads the answer as JSON.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call<T: DeserializeOwned>(&mut self, call: Call) -> Result<Reply<T>, Error> {
        let reply = self.raw(call).await?;
        let body = serde_json::from_slice(&reply.body).map_err(|error| {
            Error::Unknown(format!("{error} in {}", String::from_utf8_lossy(&reply.body)))
        })?;
        Ok(Reply { body, revision: reply.revision, duplicate: reply.duplicate })
    }

    /// Sends one call and gives the answer's bytes.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn raw(&mut self, call: Call) -> Result<Reply<Bytes>, Error> {
        let mut sender = self.connect().await?;
        let exchange = async {
            let response = sender.send_request(call.request(&self.address)).await?;
            let (parts, body) = response.into_parts();
            Ok::<_, hyper::Error>(Response::from_parts(parts, body.collect().await?.to_bytes()))
        };
        match timeout(call.limit, exchange).await {
            Err(_) => Err(Error::Unknown(format!("no answer within {} ms", call.limit.as_millis()))),
            Ok(Err(error)) => Err(Error::Unknown(format!("the connection was lost: {error}"))),
            Ok(Ok(response)) => {
                self.connection = Some(sender);
                judge(response)
            }
        }
    }

    /// The kept connection if it still stands, else a new one. Taken out: lost unless the exchange ends well.
    async fn connect(&mut self) -> Result<SendRequest<Full<Bytes>>, Error> {
        if let Some(mut sender) = self.connection.take()
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        open(&self.address).await
    }
}

/// A new connection.
pub(super) async fn open(address: &Endpoint) -> Result<SendRequest<Full<Bytes>>, Error> {
    match address {
        Endpoint::Tcp(address) => {
            let stream = connected(TcpStream::connect(address)).await?;
            let _ = stream.set_nodelay(true);
            speak(stream).await
        }
        Endpoint::From(namespace, address) => {
            let stream = connected(connect_from(namespace, *address)).await?;
            let _ = stream.set_nodelay(true);
            speak(stream).await
        }
        Endpoint::Unix(path) => speak(connected(UnixStream::connect(path)).await?).await,
    }
}

/// A connection stays in the namespace in which it was made, whichever thread uses it; threads of the pool stay here.
async fn connect_from(namespace: &'static Path, address: SocketAddr) -> std::io::Result<TcpStream> {
    let (made, stream) = oneshot::channel();
    std::thread::spawn(move || {
        let connect = || -> std::io::Result<_> {
            setns(File::open(namespace)?, CloneFlags::CLONE_NEWNET)?;
            let stream = std::net::TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        // Nobody waits any more where it took too long.
        let _ = made.send(connect());
    });
    TcpStream::from_std(stream.await.map_err(std::io::Error::other)??)
}

async fn connected<S>(connect: impl Future<Output = std::io::Result<S>>) -> Result<S, Error> {
    timeout(CONNECT_LIMIT, connect)
        .await
        .map_err(|_| Error::NotSent("no connection in time".to_owned()))?
        .map_err(|error| Error::NotSent(error.to_string()))
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Full<Bytes>>, Error> {
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| Error::NotSent(error.to_string()))?;
    // Ends by itself with the sender.
    tokio::spawn(connection);
    Ok(sender)
}

fn judge(response: Response<Bytes>) -> Result<Reply<Bytes>, Error> {
    let status = response.status();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let revision = header(header::REVISION).and_then(|value| value.parse().ok());
    let duplicate = header(header::DUPLICATE) == Some("true");
    if status.is_success() {
        return Ok(Reply { body: response.into_body(), revision, duplicate });
    }
    let body = response.into_body();
    match serde_json::from_slice::<Problem>(&body) {
        // By contract these, and only these, say that nothing was changed.
        Ok(problem) if status.is_client_error() || problem.code == Code::Unavailable => {
            Err(Error::Refused(Box::new(problem)))
        }
        _ => Err(Error::Unknown(format!("{status}: {}", String::from_utf8_lossy(&body)))),
    }
}
