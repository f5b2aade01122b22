//! `/v1/policy` and `/v1/freeze`: leases and fencing as the operator sets them, and announced network work.

use axum::extract::State;
use axum::http::StatusCode;
use holm_api::{BeginFreeze, ClusterPolicy, Code, Freeze, PatchClusterPolicy, ReadQuery};
use holm_model::{Command, command, limits};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::convert;
use super::extract::{Change, NoBody, Query};
use super::openapi::{MatchHeader, WriteHeaders};
use super::problem::{Failure, Result};
use super::read::Snapshot;
use super::write::{Accepted, Basis, Intent, perform};
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(show, patch)).routes(routes!(show_freeze, begin_freeze, end_freeze))
}

/// Show the cluster's policy: leases, fencing, the wait of a node that booted.
#[utoipa::path(get, path = "/v1/policy", tag = "policy", params(ReadQuery),
    responses((status = 200, body = ClusterPolicy)))]
async fn show(State(app): State<Shared>, Query(query): Query<ReadQuery>) -> Result<Answer<ClusterPolicy>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let policy = convert::cluster_policy(snapshot.state());
    let revision = policy.revision;
    Ok(Answer::read(&snapshot, policy).etag(revision))
}

/// Change the cluster's policy. A lowered ttl counts for fencing once the leases of before have ended.
#[utoipa::path(patch, path = "/v1/policy", tag = "policy", params(WriteHeaders, MatchHeader),
    request_body = PatchClusterPolicy,
    responses((status = 200, body = ClusterPolicy)))]
async fn patch(
    State(app): State<Shared>,
    change: Change<PatchClusterPolicy>,
) -> Result<Answer<ClusterPolicy>> {
    let Change { body, intent } = change;
    if body == PatchClusterPolicy::default() {
        return Err(Failure::new(Code::MissingField, "nothing to change is given")
            .field("lease_ttl_ms")
            .hint("give `lease_ttl_ms`, `margin_ms` or `autostart_wait_ms`"));
    }
    let accepted = perform(&app.raft, &intent, Basis::Local, |_| {
        Ok(Command::SetClusterPolicy(command::SetClusterPolicy {
            lease_ttl_ms: body.lease_ttl_ms,
            margin_ms: body.margin_ms,
            autostart_wait_ms: body.autostart_wait_ms,
            expected: intent.expected,
        }))
    })
    .await?;
    let policy = convert::cluster_policy(&accepted.published.state);
    let revision = policy.revision;
    Ok(Answer::accepted(StatusCode::OK, &accepted, policy).etag(revision))
}

/// Show the announced network work, if there is any.
#[utoipa::path(get, path = "/v1/freeze", tag = "policy", params(ReadQuery),
    responses((status = 200, body = Freeze)))]
async fn show_freeze(State(app): State<Shared>, Query(query): Query<ReadQuery>) -> Result<Answer<Freeze>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let freeze = snapshot.state().freeze.as_ref().ok_or_else(not_frozen)?;
    Ok(Answer::read(&snapshot, convert::freeze(freeze)))
}

/// Announce network work: every node that hears of it keeps its leases until the end, and nobody is fenced before
/// the end, a ttl and the margin have passed.
#[utoipa::path(put, path = "/v1/freeze", tag = "policy", params(WriteHeaders),
    request_body = BeginFreeze,
    responses((status = 200, body = Freeze)))]
async fn begin_freeze(State(app): State<Shared>, change: Change<BeginFreeze>) -> Result<Answer<Freeze>> {
    let Change { body, intent } = change;
    if let Some(reason) = &body.reason {
        limits::text("reason", reason, limits::MESSAGE_MAX)?;
    }
    set(&app, &intent, Some(body.for_ms), body.reason).await
}

/// Call the announced work off. Leases become short again; those given meanwhile are waited for.
#[utoipa::path(delete, path = "/v1/freeze", tag = "policy", params(WriteHeaders),
    responses((status = 200, body = Freeze)))]
async fn end_freeze(
    State(app): State<Shared>,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<Freeze>> {
    set(&app, &intent, None, None).await
}

async fn set(
    app: &Shared,
    intent: &Intent,
    for_ms: Option<u64>,
    reason: Option<String>,
) -> Result<Answer<Freeze>> {
    intent.refuse_if_match()?;
    let accepted: Accepted = perform(&app.raft, intent, Basis::Local, |_| {
        Ok(Command::SetFreeze(command::SetFreeze { for_ms, reason: reason.clone() }))
    })
    .await?;
    let freeze = accepted.published.state.freeze.as_ref().ok_or_else(not_frozen)?;
    let freeze = convert::freeze(freeze);
    Ok(Answer::accepted(StatusCode::OK, &accepted, freeze))
}

fn not_frozen() -> Failure {
    Failure::new(Code::NotFound, "the cluster is not frozen")
        .hint("`holm cluster freeze --for 30m` freezes it")
}
