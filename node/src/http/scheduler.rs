//! `/v1/scheduler`: the policy by which every leader places VMs.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use holm_api::{ReadQuery, SchedulerPolicy, SetSchedulerPolicy};
use holm_model::{Command, command, policy};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::extract::{Change, NoBody, Query};
use super::openapi::{MatchHeader, WriteHeaders};
use super::problem::Result;
use super::read::Snapshot;
use super::write::{Basis, Intent, perform};
use super::{convert, n_plus_one};
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(show, set, reset))
}

/// Show the scheduler's policy, and what could be in it.
#[utoipa::path(get, path = "/v1/scheduler", tag = "scheduler", params(ReadQuery),
    responses((status = 200, body = SchedulerPolicy)))]
async fn show(State(app): State<Shared>, Query(query): Query<ReadQuery>) -> Result<Answer<SchedulerPolicy>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let mut policy = convert::policy(snapshot.state());
    policy.warnings = n_plus_one::warnings(snapshot.published()).await?;
    let revision = policy.revision;
    Ok(Answer::read(&snapshot, policy).etag(revision))
}

/// Replace the scheduler's policy. It holds from the next decision on; nothing that is placed moves.
#[utoipa::path(put, path = "/v1/scheduler", tag = "scheduler", params(WriteHeaders, MatchHeader),
    request_body = SetSchedulerPolicy,
    responses((status = 200, body = SchedulerPolicy)))]
async fn set(
    State(app): State<Shared>,
    change: Change<SetSchedulerPolicy>,
) -> Result<Answer<SchedulerPolicy>> {
    let policy = convert::to_policy(&change.body)?;
    put(&app, &change.intent, Some(policy)).await
}

/// Go back to the default policy.
#[utoipa::path(delete, path = "/v1/scheduler", tag = "scheduler", params(WriteHeaders, MatchHeader),
    responses((status = 200, body = SchedulerPolicy)))]
async fn reset(
    State(app): State<Shared>,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<SchedulerPolicy>> {
    put(&app, &intent, None).await
}

async fn put(
    app: &Shared,
    intent: &Intent,
    policy: Option<policy::SchedulerPolicy>,
) -> Result<Answer<SchedulerPolicy>> {
    let named = policy.iter().flat_map(|policy| policy.isolated_images.iter().chain(&policy.isolated_nodes));
    let basis = Basis::of_all(named.map(String::as_str));
    let accepted = perform(&app.raft, intent, basis, |state| {
        let (mut policy, expected) = (policy.clone(), intent.expected);
        if let Some(policy) = &mut policy {
            convert::isolate_by_id(state, intent.project.known(state)?, policy)?;
        }
        Ok(Command::SetSchedulerPolicy(command::SetSchedulerPolicy { policy, expected }))
    })
    .await?;
    let mut policy = convert::policy(&accepted.published.state);
    policy.warnings = n_plus_one::warnings(Arc::clone(&accepted.published)).await?;
    let revision = policy.revision;
    Ok(Answer::accepted(StatusCode::OK, &accepted, policy).etag(revision))
}
