//! HTTP to another node's REST service, for what is too large for the log: image bytes.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use http_body_util::{BodyDataStream, BodyExt, Empty};
use hyper::header::{HOST, RANGE};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Reaching a peer, and each wait for its next bytes.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Opens `path` at `address` from byte `offset` on.
///
/// # Errors
/// When the peer cannot be reached or answers anything but the bytes asked for.
pub async fn get_from(
    address: &str,
    path: &str,
    offset: u64,
) -> std::io::Result<impl Stream<Item = std::io::Result<Bytes>> + Unpin + use<>> {
    let stream = within(TcpStream::connect(address)).await??;
    let (mut sender, connection) = within(hyper::client::conn::http1::handshake(TokioIo::new(stream)))
        .await?
        .map_err(std::io::Error::other)?;
    let task = tokio::spawn(connection);
    let request = Request::get(path)
        .header(HOST, address)
        .header(RANGE, format!("bytes={offset}-"))
        .body(Empty::<Bytes>::new())
        .map_err(std::io::Error::other)?;
    let response = within(sender.send_request(request)).await?.map_err(std::io::Error::other)?;
    let fits = match response.status() {
        StatusCode::PARTIAL_CONTENT => true,
        StatusCode::OK => offset == 0,
        _ => false,
    };
    if !fits {
        let status = response.status();
        let body = within(response.into_body().collect()).await?.map_err(std::io::Error::other)?.to_bytes();
        let text = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
        return Err(std::io::Error::other(format!("{address} answered {status}: {text}")));
    }
    let body = BodyDataStream::new(response.into_body()).map_err(std::io::Error::other);
    // The connection lives as long as the stream, and no wait for the next bytes is unbounded.
    let guard = AbortOnDrop(task);
    let stream = futures::stream::unfold((body, guard), |(mut body, guard)| async move {
        let item = match within(body.next()).await {
            Ok(item) => item?,
            Err(timeout) => Err(timeout),
        };
        Some((item, (body, guard)))
    });
    Ok(Box::pin(stream))
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn within<T>(work: impl Future<Output = T>) -> std::io::Result<T> {
    tokio::time::timeout(TIMEOUT, work)
        .await
        .map_err(|_| std::io::Error::new(std::io::ErrorKind::TimedOut, "the peer does not answer"))
}
