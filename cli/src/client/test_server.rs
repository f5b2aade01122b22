//! A real HTTP server on a free port for tests: a closure decides what to do with each request, and every
//! request is kept to be looked at. Stops when dropped.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Got {
    pub method: Method,
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Got {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// What to do with a request.
pub enum Act {
    /// Answer with this status, media type and body.
    Answer(u16, &'static str, String),
    /// Answer with this as the beginning of a stream that stays open.
    Stream(&'static str, String),
    /// End the connection without a word.
    Close,
    /// Never answer.
    Hang,
}

impl Act {
    pub fn json(status: u16, body: &Value) -> Self {
        Self::Answer(status, "application/json", body.to_string())
    }

    pub fn problem(status: u16, code: &str, detail: &str) -> Self {
        let body = json!({
            "type": format!("urn:holm:problem:{code}"), "title": "T", "status": status, "code": code,
            "detail": detail, "field": null, "request_id": "r-1", "hint": null,
        });
        Self::Answer(status, "application/problem+json", body.to_string())
    }

    /// Healthy, at `revision`.
    pub fn health(revision: u64) -> Self {
        Self::json(
            200,
            &json!({
                "live": true, "ready": true, "reason": null, "node": "n1", "node_id": 1, "leader": "n1",
                "version": "0.1.0", "uptime_s": 1, "revision": revision,
            }),
        )
    }
}

pub struct TestServer {
    pub address: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
    task: JoinHandle<()>,
}

impl TestServer {
    /// Serves with `act`, which is told how many requests other than for `/health` came before.
    pub async fn start(act: impl Fn(usize, &Got) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let got = Arc::new(Mutex::new(Vec::new()));
        let (kept, act) = (Arc::clone(&got), Arc::new(act));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (kept, act) = (Arc::clone(&kept), Arc::clone(&act));
                let service = service_fn(move |request| serve(request, Arc::clone(&kept), Arc::clone(&act)));
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, got, task }
    }

    /// Requests other than for `/health`.
    pub fn got(&self) -> Vec<Got> {
        let got = self.got.lock().expect("no test panics while holding it");
        got.iter().filter(|got| got.target != "/health").cloned().collect()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve<A: Fn(usize, &Got) -> Act>(
    request: Request<Incoming>,
    kept: Arc<Mutex<Vec<Got>>>,
    act: Arc<A>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let got = Got { method: head.method, target: head.uri.to_string(), headers: head.headers, body };
    let before = {
        let mut kept = kept.lock().expect("no test panics while holding it");
        let before = kept.iter().filter(|got| got.target != "/health").count();
        kept.push(got.clone());
        before
    };
    match act(before, &got) {
        Act::Answer(status, media_type, body) => {
            let body = Full::new(Bytes::from(body)).boxed_unsync();
            let response = Response::builder().status(status).header("content-type", media_type);
            Ok(response.body(body).expect("tests answer well-formed"))
        }
        Act::Stream(media_type, beginning) => {
            let beginning = futures::stream::iter([Ok(Frame::data(Bytes::from(beginning)))]);
            let body = StreamBody::new(beginning.chain(futures::stream::pending())).boxed_unsync();
            Ok(Response::builder()
                .header("content-type", media_type)
                .body(body)
                .expect("tests answer well-formed"))
        }
        Act::Close => Err(std::io::Error::other("closed on purpose")),
        Act::Hang => std::future::pending().await,
    }
}

/// An address on which nobody listens.
pub async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
    listener.local_addr().expect("it is bound")
}
