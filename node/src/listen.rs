//! Serves HTTP on a listener with bounds that keep one client from hurting the rest: a time limit for the
//! head of a request, and a limit on open connections. Ends gracefully: what is under way is answered.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The bounds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A client that has not sent the head of its request by then is cut off; an idle connection too.
    pub head: Duration,
    /// Open connections; further ones wait in the listener's backlog.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: Duration::from_secs(30), connections: 2048 }
    }
}

/// Longest wait for what is under way at a stop.
const GRACE: Duration = Duration::from_secs(4);
/// Pause after an accept that failed, mostly for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Something that gives connections.
pub trait Accept: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Accept for TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn accept(&mut self) -> io::Result<Self::Stream> {
        let (stream, _) = TcpListener::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Accept for UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn accept(&mut self) -> io::Result<Self::Stream> {
        UnixListener::accept(self).await.map(|(stream, _)| stream)
    }
}

/// Serves `router` until `stop`.
pub async fn serve(mut listener: impl Accept, router: Router, limits: Limits, stop: CancellationToken) {
    let open = TaskTracker::new();
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head);
    loop {
        let next = async {
            let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
            listener.accept().await.map(|stream| (place, stream))
        };
        let (place, stream) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = next => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let stop = stop.clone();
        open.spawn(async move {
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(place);
        });
    }
    drop(listener);
    open.close();
    let _ = tokio::time::timeout(GRACE, open.wait()).await;
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::task::JoinHandle;

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    async fn start(limits: Limits) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", axum::routing::get(|| async { "well" }));
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(listener, router, limits, stop.clone()));
        (address, stop, task)
    }

    #[tokio::test]
    async fn a_client_that_never_ends_its_request_is_cut_off() {
        let limits = Limits { head: Duration::from_millis(50), ..Limits::default() };
        let (address, stop, task) = start(limits).await;
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HT").await.unwrap();
        let mut answer = Vec::new();
        slow.read_to_end(&mut answer).await.unwrap();
        assert!(!answer.ends_with(b"well"), "{answer:?}");
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_wait_for_one_to_close() {
        let (address, stop, task) = start(Limits { connections: 1, ..Limits::default() }).await;
        let mut first = TcpStream::connect(address).await.unwrap();
        first.write_all(REQUEST).await.unwrap();
        let mut buffer = [0; 512];
        assert!(first.read(&mut buffer).await.unwrap() > 0);
        let mut second = TcpStream::connect(address).await.unwrap();
        second.write_all(REQUEST).await.unwrap();
        let early = tokio::time::timeout(Duration::from_millis(50), second.read(&mut buffer)).await;
        assert!(early.is_err(), "the second was served beside the first");
        drop(first);
        assert!(second.read(&mut buffer).await.unwrap() > 0);
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test]
    async fn a_stop_ends_idle_connections_at_once() {
        let (address, stop, task) = start(Limits::default()).await;
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(REQUEST).await.unwrap();
        assert!(idle.read(&mut [0; 512]).await.unwrap() > 0);
        stop.cancel();
        task.await.unwrap();
        assert_eq!(idle.read(&mut [0; 512]).await.unwrap(), 0);
    }
}
