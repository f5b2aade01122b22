//! Requests that only another node can serve (a VM's console and log, an image's bytes) are passed on to
//! it, once: a request that was passed on already is never passed on again, so a wrong idea of who holds
//! what ends in an answer, not in a circle.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use futures::StreamExt;
use holm_api::{Code, header as holm};
use holm_model::node::Node;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::problem::{Failure, Result};
use crate::app::App;

/// Reaching the other node.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The head of its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Headers about one connection, not about the request.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::UPGRADE,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
];

/// Whether another node passed this request on.
pub fn was_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(holm::FORWARDED_BY)
}

/// Passes `request` on to `node` and gives back what that answers; an upgraded connection is joined to ours.
pub async fn forward(app: &App, node: &Node, mut request: Request) -> Result<Response> {
    let unreachable = |why: String| {
        let failure =
            Failure::new(Code::NodeUnreachable, format!("node `{}` does not answer: {why}", node.name));
        failure.hint(format!("`holm node show {}` tells what is known of it", node.name))
    };
    if was_forwarded(request.headers()) {
        let detail = format!("what was asked for is on node `{}`, not here", node.name);
        return Err(Failure::new(Code::Unavailable, detail).hint("it may be moving; try again"));
    }
    let ours = hyper::upgrade::on(&mut request);
    let request = rewritten(app, node, request)?;
    let answer = async {
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(&node.api_addr))
            .await
            .map_err(|_| "the connection timed out".to_owned())?
            .map_err(|error| error.to_string())?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // Ends with the bodies it carries, or when the client goes away and drops them.
        tokio::spawn(connection.with_upgrades());
        tokio::time::timeout(ANSWER_TIMEOUT, sender.send_request(request))
            .await
            .map_err(|_| "no answer in time".to_owned())?
            .map_err(|error| error.to_string())
    };
    let mut response = answer.await.map_err(unreachable)?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let theirs = hyper::upgrade::on(&mut response);
        tokio::spawn(async move {
            if let (Ok(ours), Ok(theirs)) = (ours.await, theirs.await) {
                let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
                // Either end may go at any time; both are closed then, and there is nobody to tell.
                let _ = tokio::io::copy_bidirectional(&mut ours, &mut theirs).await;
            }
        });
        return Ok(response.map(|_| Body::empty()));
    }
    for name in HOP_BY_HOP {
        response.headers_mut().remove(name);
    }
    if response.headers().contains_key(header::CONTENT_LENGTH) {
        return Ok(response.map(Body::new));
    }
    // It may have no end of its own, as a log that is followed.
    let stopping = app.stopping.clone().cancelled_owned();
    Ok(response.map(|body| Body::from_stream(Body::new(body).into_data_stream().take_until(stopping))))
}

fn rewritten(app: &App, node: &Node, request: Request) -> Result<Request> {
    let bad = |what: &str| Failure::new(Code::Internal, format!("cannot pass the request on: {what}"));
    let (mut parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    parts.uri = target.parse::<Uri>().map_err(|_| bad("its path"))?;
    parts.version = axum::http::Version::HTTP_11;
    let upgrades = parts.headers.get(header::UPGRADE).cloned();
    for name in HOP_BY_HOP {
        parts.headers.remove(name);
    }
    if let Some(protocol) = upgrades {
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(header::UPGRADE, protocol);
    }
    let host = node.api_addr.parse::<HeaderValue>().map_err(|_| bad("the node's address"))?;
    parts.headers.insert(header::HOST, host);
    parts.headers.insert(holm::FORWARDED_BY, HeaderValue::from(app.raft.node_id().0));
    parts.extensions = axum::http::Extensions::new();
    Ok(Request::from_parts(parts, body))
}
