//! One connection to one endpoint, one request at a time: plain HTTP/1.1 over TCP or a Unix socket. Says
//! of every failure whether the request may have taken effect.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::endpoint::Endpoint;

/// A request's body.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A connection is given up after this long.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// Why one attempt at one endpoint gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There was no connection, so nothing was sent.
    #[error("{0}")]
    NoConnection(String),
    /// Something else than Holm answered.
    #[error("{0}")]
    NotHolm(String),
    /// It is there and says nothing; the request itself was not sent.
    #[error("{0}")]
    Silent(String),
    /// The request was sent; no answer came.
    #[error("{0}")]
    NoAnswer(String),
    /// A Holm node answered that the cluster cannot answer now: nothing was changed.
    #[error("{0}")]
    Unavailable(String),
    /// A Holm node answered that it does not know what became of the write.
    #[error("{0}")]
    Unknown(String),
}

impl Failure {
    /// Whether the request may have taken effect all the same.
    pub fn may_have_happened(&self) -> bool {
        matches!(self, Self::NoAnswer(_) | Self::Unknown(_))
    }

    /// Whether trying again soon may help.
    pub fn may_pass(&self) -> bool {
        !matches!(self, Self::NoConnection(_) | Self::NotHolm(_))
    }
}

/// A body of known bytes.
pub fn whole(bytes: Bytes) -> Body {
    if bytes.is_empty() { Empty::new().map_err(|never| match never {}).boxed_unsync() } else { full(bytes) }
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// An open connection.
pub struct Connection {
    sender: SendRequest<Body>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// [`Failure::NoConnection`], in the words an operator needs.
    pub async fn open(endpoint: &Endpoint) -> Result<Self, Failure> {
        match endpoint {
            Endpoint::Tcp { host, port } => {
                let connecting = timeout(CONNECT_LIMIT, TcpStream::connect((host.as_str(), *port)));
                let stream =
                    connecting.await.map_err(|_| silent())?.map_err(|error| no_connection(&error))?;
                // Keystrokes and small requests should not wait for each other's acknowledgements.
                let _ = stream.set_nodelay(true);
                Self::handshake(stream).await
            }
            Endpoint::Unix(path) => {
                let connecting = timeout(CONNECT_LIMIT, UnixStream::connect(path));
                let stream =
                    connecting.await.map_err(|_| silent())?.map_err(|error| no_connection(&error))?;
                Self::handshake(stream).await
            }
        }
    }

    async fn handshake<S>(stream: S) -> Result<Self, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Failure::NoConnection(error.to_string()))?;
        // Ends by itself when the sender and the answer's body are dropped, or the upgrade is over.
        tokio::spawn(connection.with_upgrades());
        Ok(Self { sender })
    }

    /// Sends one request and waits up to `limit` for the head of its answer.
    ///
    /// # Errors
    /// [`Failure::NoAnswer`] or [`Failure::NotHolm`].
    pub async fn send(
        &mut self,
        request: Request<Body>,
        limit: Duration,
    ) -> Result<Response<Incoming>, Failure> {
        match timeout(limit, self.sender.send_request(request)).await {
            Ok(answer) => answer.map_err(|error| broken(&error)),
            Err(_) => Err(Failure::NoAnswer(format!("no answer within {} s", limit.as_secs_f32().ceil()))),
        }
    }
}

/// The failure behind an error in the middle of an exchange.
pub fn broken(error: &hyper::Error) -> Failure {
    if error.is_parse() {
        return Failure::NotHolm("what answers does not speak HTTP".into());
    }
    Failure::NoAnswer("the connection ended without an answer".into())
}

fn silent() -> Failure {
    Failure::NoConnection(format!("no connection within {} s", CONNECT_LIMIT.as_secs()))
}

fn no_connection(error: &io::Error) -> Failure {
    Failure::NoConnection(match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::NotFound => "there is no such socket".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    })
}
