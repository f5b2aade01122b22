//! `/v1/projects`: whose VMs, server groups, images, volumes and quotas are whose.

use axum::extract::State;
use axum::http::StatusCode;
use holm_api::{CreateProject, Deleted, List, ListQuery, PatchProject, Project, ReadQuery};
use holm_model::reply::{Kind, Outcome};
use holm_model::{Command, ProjectId, State as Model, command, limits};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::answer::Answer;
use super::convert;
use super::extract::{Change, Named, NoBody, Query};
use super::openapi::{MatchHeader, WriteHeaders};
use super::page::Page;
use super::problem::{Failure, Result};
use super::read::Snapshot;
use super::write::{Accepted, Basis, Intent, perform};
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(show, patch, delete))
}

/// Create a project. It partitions names, quotas and placement, not access. Requests choose it by `Holm-Project`.
#[utoipa::path(post, path = "/v1/projects", tag = "projects", params(WriteHeaders),
    request_body = CreateProject,
    responses((status = 201, body = Project)))]
async fn create(State(app): State<Shared>, change: Change<CreateProject>) -> Result<Answer<Project>> {
    let Change { body, intent } = change;
    let intent = of_the_cluster(intent);
    intent.refuse_if_match()?;
    limits::name("name", &body.name)?;
    let id = ProjectId(Uuid::now_v7());
    let accepted = perform(&app.raft, &intent, Basis::Local, |_| {
        let (name, description) = (body.name.clone(), body.description.clone());
        Ok(Command::CreateProject(command::CreateProject { id, name, description }))
    })
    .await?;
    let project = shown(&accepted)?;
    let (location, revision) = (format!("/v1/projects/{}", project.name), project.revision);
    Ok(Answer::accepted(StatusCode::CREATED, &accepted, project).location(location).etag(revision))
}

/// List projects by name; `default` is always there.
#[utoipa::path(get, path = "/v1/projects", tag = "projects", params(ListQuery),
    responses((status = 200, body = List<Project>)))]
async fn list(State(app): State<Shared>, Query(query): Query<ListQuery>) -> Result<Answer<List<Project>>> {
    let page = Page::<String>::new(query.limit, query.marker.as_deref())?;
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let state = snapshot.state();
    let projects: std::collections::BTreeMap<String, _> =
        state.all_projects().into_iter().map(|project| (project.name.clone(), project)).collect();
    let list =
        page.cut(state.revision, projects.range(page.start()), |project| convert::project(state, project));
    Ok(Answer::read(&snapshot, list))
}

/// Show a project and how much belongs to it.
#[utoipa::path(get, path = "/v1/projects/{project}", tag = "projects",
    params(("project" = String, Path, description = "Name or id"), ReadQuery),
    responses((status = 200, body = Project)))]
async fn show(
    State(app): State<Shared>,
    Named(name): Named,
    Query(query): Query<ReadQuery>,
) -> Result<Answer<Project>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let project = convert::project(snapshot.state(), &find(snapshot.state(), &name)?);
    let revision = project.revision;
    Ok(Answer::read(&snapshot, project).etag(revision))
}

/// Describe a project anew. Its name stays: everything refers to it by name.
#[utoipa::path(patch, path = "/v1/projects/{project}", tag = "projects",
    params(("project" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    request_body = PatchProject,
    responses((status = 200, body = Project)))]
async fn patch(
    State(app): State<Shared>,
    name: Named,
    change: Change<PatchProject>,
) -> Result<Answer<Project>> {
    let Change { body, intent } = change;
    let intent = of_the_cluster(intent);
    let accepted = perform(&app.raft, &intent, Basis::of(&name), |state| {
        Ok(Command::UpdateProject(command::UpdateProject {
            id: find(state, &name.0)?.id,
            description: body.description.clone(),
            expected: intent.expected,
        }))
    })
    .await?;
    let project = shown(&accepted)?;
    let revision = project.revision;
    Ok(Answer::accepted(StatusCode::OK, &accepted, project).etag(revision))
}

/// Delete a project. Refused while VMs, server groups, images, volumes or a quota belong to it; `default` stays.
#[utoipa::path(delete, path = "/v1/projects/{project}", tag = "projects",
    params(("project" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    responses((status = 202, body = Deleted)))]
async fn delete(
    State(app): State<Shared>,
    name: Named,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<Deleted>> {
    let intent = of_the_cluster(intent);
    let before = app.raft.state();
    let accepted = perform(&app.raft, &intent, Basis::of(&name), |state| {
        let id = find(state, &name.0)?.id;
        Ok(Command::DeleteProject(command::DeleteProject { id, expected: intent.expected }))
    })
    .await?;
    let id = subject(&accepted)?.to_string();
    let known = before.state.find_project(&id).map(|project| project.name);
    Ok(Answer::deleted(&accepted, id, known))
}

/// Projects belong to none: one that is chosen need not be there yet to be created.
fn of_the_cluster(mut intent: Intent) -> Intent {
    intent.project = Default::default();
    intent
}

/// A project by name or id.
///
/// # Errors
/// When there is none.
pub fn find(state: &Model, name: &str) -> Result<holm_model::project::Project> {
    let missing = || Failure::not_found(Kind::Project, name).field("project");
    state.find_project(name).ok_or_else(missing)
}

fn subject(accepted: &Accepted) -> Result<ProjectId> {
    match accepted.done.outcome {
        Outcome::Project(id) => Ok(id),
        _ => Err(Failure::unexpected(accepted)),
    }
}

fn shown(accepted: &Accepted) -> Result<Project> {
    let state = &accepted.published.state;
    let project = state.find_project(&subject(accepted)?.to_string());
    let project = project.ok_or_else(|| Failure::gone(Kind::Project, accepted))?;
    Ok(convert::project(state, &project))
}
