//! `/v1/quotas`: what a project may hold, beside what it holds.

use axum::extract::State;
use axum::http::StatusCode;
use holm_api::{List, ListQuery, Quota, ReadQuery, SetQuota};
use holm_model::{Command, ResourceClass, command};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::convert;
use super::extract::{Change, Named, Query};
use super::openapi::WriteHeaders;
use super::page::Page;
use super::problem::Result;
use super::projects::find;
use super::read::Snapshot;
use super::write::{Basis, perform};
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show, set))
}

/// List quotas, a project each.
#[utoipa::path(get, path = "/v1/quotas", tag = "quotas", params(ListQuery),
    responses((status = 200, body = List<Quota>)))]
async fn list(State(app): State<Shared>, Query(query): Query<ListQuery>) -> Result<Answer<List<Quota>>> {
    let page = Page::<String>::new(query.limit, query.marker.as_deref())?;
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let state = snapshot.state();
    let projects = state.all_projects().into_iter().map(|project| project.name);
    let quotas: std::collections::BTreeMap<_, _> =
        projects.map(|name| (name.clone(), convert::quota(state, &name))).collect();
    let list = page.cut(state.revision, quotas.range(page.start()), Quota::clone);
    Ok(Answer::read(&snapshot, list))
}

/// Show a project's quota: usage beside limit.
#[utoipa::path(get, path = "/v1/quotas/{project}", tag = "quotas",
    params(("project" = String, Path, description = "Name or id of the project"), ReadQuery),
    responses((status = 200, body = Quota)))]
async fn show(
    State(app): State<Shared>,
    Named(project): Named,
    Query(query): Query<ReadQuery>,
) -> Result<Answer<Quota>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let project = find(snapshot.state(), &project)?.name;
    let quota = convert::quota(snapshot.state(), &project);
    Ok(Answer::read(&snapshot, quota))
}

/// Change limits of a project. A limit below what is used stops what is new and takes nothing away.
#[utoipa::path(put, path = "/v1/quotas/{project}", tag = "quotas",
    params(("project" = String, Path, description = "Name or id of the project"), WriteHeaders),
    request_body = SetQuota,
    responses((status = 200, body = Quota)))]
async fn set(
    State(app): State<Shared>,
    Named(project): Named,
    change: Change<SetQuota>,
) -> Result<Answer<Quota>> {
    let Change { body, intent } = change;
    intent.refuse_if_match()?;
    let name = Named(project);
    let accepted = perform(&app.raft, &intent, Basis::of(&name), |state| {
        let project = find(state, &name.0)?.name;
        let limits = body.limits.iter().map(|(class, limit)| (ResourceClass::from(class.clone()), *limit));
        Ok(Command::SetQuota(command::SetQuota { project, limits: limits.collect() }))
    })
    .await?;
    let state = &accepted.published.state;
    let quota = convert::quota(state, &find(state, &name.0)?.name);
    Ok(Answer::accepted(StatusCode::OK, &accepted, quota))
}
