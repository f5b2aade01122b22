//! `/health` and `/metrics`: for load balancers and monitoring.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::{Extension, Json};
use holm_api::Health;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::convert;
use super::metrics::{Traffic, render};
use crate::app::Shared;

/// A probe waits this long for the leader: less than the patience of the usual prober.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(probe)).routes(routes!(metrics))
}

/// Whether this node can serve. 200 when ready, 503 when not; it is live when it answers at all.
#[utoipa::path(get, path = "/health", tag = "health",
    responses((status = 200, body = Health), (status = 503, body = Health)))]
async fn probe(State(app): State<Shared>) -> impl IntoResponse {
    let reason = app.raft.read(PROBE_TIMEOUT).await.err().map(|error| error.to_string());
    let published = app.raft.state();
    let state = &published.state;
    let leader = app.raft.status().borrow().leader;
    let status = if reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let health = Health {
        live: true,
        ready: reason.is_none(),
        reason,
        node: convert::node_name(state, app.raft.node_id()),
        node_id: app.raft.node_id().0,
        leader: leader.map(|leader| convert::node_name(state, leader)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_s: app.started_at.elapsed().as_secs(),
        revision: state.revision.0,
    };
    (status, Json(health))
}

/// Metrics in Prometheus' text format, from this node's own copy of the state.
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, body = String, content_type = "text/plain")))]
async fn metrics(
    State(app): State<Shared>,
    Extension(traffic): Extension<Arc<Traffic>>,
) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], render(&app, &traffic))
}
