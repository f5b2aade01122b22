//! `/v1/server-groups`: VMs that are kept together or apart.

use axum::extract::State;
use axum::http::StatusCode;
use holm_api::{
    CreateServerGroup, Deleted, List, PatchServerGroup, ProjectListQuery, ReadQuery, ServerGroup,
};
use holm_model::reply::{Kind, Outcome};
use holm_model::{Command, GroupId, State as Model, command, group, limits};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::answer::Answer;
use super::convert;
use super::extract::{Change, Named, NoBody, Query};
use super::openapi::{MatchHeader, ProjectHeader, WriteHeaders};
use super::page::Page;
use super::problem::{Failure, Result};
use super::project::Project;
use super::read::Snapshot;
use super::write::{Accepted, Basis, perform};
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(show, patch, delete))
}

/// Create a server group.
#[utoipa::path(post, path = "/v1/server-groups", tag = "server-groups", params(WriteHeaders),
    request_body = CreateServerGroup,
    responses((status = 201, body = ServerGroup)))]
async fn create(State(app): State<Shared>, change: Change<CreateServerGroup>) -> Result<Answer<ServerGroup>> {
    let Change { body, intent } = change;
    intent.refuse_if_match()?;
    limits::name("name", &body.name)?;
    let id = GroupId(Uuid::now_v7());
    let accepted = perform(&app.raft, &intent, Basis::Local, |_| {
        Ok(Command::CreateGroup(command::CreateGroup {
            id,
            name: body.name.clone(),
            policy: convert::to_group_policy(body.policy),
            max_server_per_host: body.max_server_per_host,
        }))
    })
    .await?;
    let group = shown(&accepted)?;
    let (location, revision) = (format!("/v1/server-groups/{}", group.id), group.revision);
    Ok(Answer::accepted(StatusCode::CREATED, &accepted, group).location(location).etag(revision))
}

/// List server groups.
#[utoipa::path(get, path = "/v1/server-groups", tag = "server-groups", params(ProjectListQuery, ProjectHeader),
    responses((status = 200, body = List<ServerGroup>)))]
async fn list(
    State(app): State<Shared>,
    project: Project,
    Query(query): Query<ProjectListQuery>,
) -> Result<Answer<List<ServerGroup>>> {
    let page = Page::<GroupId>::new(query.limit, query.marker.as_deref())?;
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let state = snapshot.state();
    let project = project.known(state)?;
    let wanted = |group: &group::ServerGroup| query.all_projects || group.project == project;
    let rest = state.groups.range(page.start()).filter(|(_, group)| wanted(group));
    let list = page.cut(state.revision, rest, |group| convert::group(state, group));
    Ok(Answer::read(&snapshot, list))
}

/// Show a server group and where its members are.
#[utoipa::path(get, path = "/v1/server-groups/{group}", tag = "server-groups",
    params(("group" = String, Path, description = "Name or id"), ReadQuery, ProjectHeader),
    responses((status = 200, body = ServerGroup)))]
async fn show(
    State(app): State<Shared>,
    project: Project,
    Named(name): Named,
    Query(query): Query<ReadQuery>,
) -> Result<Answer<ServerGroup>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let group = convert::group(snapshot.state(), find(snapshot.state(), &project, &name)?);
    let revision = group.revision;
    Ok(Answer::read(&snapshot, group).etag(revision))
}

/// Change a server group's name or `max_server_per_host`.
#[utoipa::path(patch, path = "/v1/server-groups/{group}", tag = "server-groups",
    params(("group" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    request_body = PatchServerGroup,
    responses((status = 200, body = ServerGroup)))]
async fn patch(
    State(app): State<Shared>,
    name: Named,
    change: Change<PatchServerGroup>,
) -> Result<Answer<ServerGroup>> {
    let Change { body, intent } = change;
    let accepted = perform(&app.raft, &intent, Basis::of(&name), |state| {
        Ok(Command::UpdateGroup(command::UpdateGroup {
            id: find(state, &intent.project, &name.0)?.id,
            name: body.name.clone(),
            max_server_per_host: body.max_server_per_host,
            expected: intent.expected,
        }))
    })
    .await?;
    let group = shown(&accepted)?;
    let revision = group.revision;
    Ok(Answer::accepted(StatusCode::OK, &accepted, group).etag(revision))
}

/// Delete a server group. Refused while it has members.
#[utoipa::path(delete, path = "/v1/server-groups/{group}", tag = "server-groups",
    params(("group" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    responses((status = 202, body = Deleted)))]
async fn delete(
    State(app): State<Shared>,
    name: Named,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<Deleted>> {
    let before = app.raft.state();
    let accepted = perform(&app.raft, &intent, Basis::of(&name), |state| {
        let id = find(state, &intent.project, &name.0)?.id;
        Ok(Command::DeleteGroup(command::DeleteGroup { id, expected: intent.expected }))
    })
    .await?;
    let id = subject(&accepted)?;
    let known = before.state.groups.get(&id).map(|group| group.name.clone());
    Ok(Answer::deleted(&accepted, id.to_string(), known))
}

fn find<'a>(state: &'a Model, project: &Project, name: &str) -> Result<&'a group::ServerGroup> {
    state.find_group(project.known(state)?, name).ok_or_else(|| Failure::not_found(Kind::Group, name))
}

fn subject(accepted: &Accepted) -> Result<GroupId> {
    match accepted.done.outcome {
        Outcome::Group(id) => Ok(id),
        _ => Err(Failure::unexpected(accepted)),
    }
}

fn shown(accepted: &Accepted) -> Result<ServerGroup> {
    let state = &accepted.published.state;
    let group = state.groups.get(&subject(accepted)?);
    let group = group.ok_or_else(|| Failure::gone(Kind::Group, accepted))?;
    Ok(convert::group(state, group))
}
