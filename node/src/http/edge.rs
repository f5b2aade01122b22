//! The outermost layer of every request: gives it an id, turns a panic into a problem, writes failures, counts and
//! logs.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use holm_api::{Code, header as holm};
use uuid::Uuid;

use super::metrics::Traffic;
use super::problem::{Failure, render};

/// Wraps one request.
pub async fn edge(State(traffic): State<Arc<Traffic>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let request_id = Uuid::now_v7().to_string();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let response = AssertUnwindSafe(next.run(request))
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| panicked(panic.as_ref()).into_response());
    let mut response = render(response, &request_id, method.as_str(), &path);
    let id = HeaderValue::from_str(&request_id).expect("a UUID is a valid header value");
    response.headers_mut().entry(holm::REQUEST_ID).or_insert(id);

    let status = response.status();
    traffic.count(&method, route.as_deref().unwrap_or("none"), status.as_u16(), started.elapsed());
    let elapsed_ms = started.elapsed().as_millis() as u64;
    if status.is_server_error() {
        tracing::warn!(%request_id, %method, path, %status, elapsed_ms, "request failed");
    } else {
        // What a write changed is in the events; a line a request would cost more than the request.
        tracing::debug!(%request_id, %method, path, %status, elapsed_ms, "request");
    }
    response
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let message = panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    tracing::error!(message, "a request handler panicked");
    Failure::new(Code::Internal, "the daemon failed to handle the request")
        .hint("this is a defect: report it with the daemon's log for this request id")
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use axum::{Router, middleware};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Sends `requests` over one connection, the last of which closes it; all that comes back.
    async fn served(requests: &str) -> String {
        let boom = get(async || -> &'static str { panic!("a defect") });
        let router = Router::new()
            .route("/boom", boom)
            .route("/fine", get(async || "fine"))
            .layer(middleware::from_fn_with_state(Arc::new(Traffic::default()), edge));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(requests.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        server.abort();
        answer
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_and_the_connection_goes_on() {
        let answer = served(
            "GET /boom HTTP/1.1\r\nhost: x\r\n\r\nGET /fine HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
        assert!(
            answer.contains("application/problem+json") && answer.contains("\"code\":\"internal\""),
            "{answer}"
        );
        assert!(answer.ends_with("fine"), "{answer}");
    }

    #[tokio::test]
    async fn what_axum_refuses_is_a_problem_too() {
        let answer = served("PUT /fine HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
        assert!(
            answer.contains("\"code\":\"method_not_allowed\"") && answer.contains("allow: GET,HEAD"),
            "{answer}"
        );
    }
}
