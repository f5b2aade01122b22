//! `/v1/volumes`: storage outside the cluster that VMs are given.

use axum::extract::State;
use axum::http::StatusCode;
use holm_api::{CreateVolume, Deleted, List, ProjectListQuery, ReadQuery, Volume};
use holm_model::reply::{Kind, Outcome};
use holm_model::{Command, State as Model, VolumeId, command, limits, volume};
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
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(show, delete))
}

/// Create a shared volume: its record; the storage is there already.
#[utoipa::path(post, path = "/v1/volumes", tag = "volumes", params(WriteHeaders),
    request_body = CreateVolume,
    responses((status = 201, body = Volume)))]
async fn create(State(app): State<Shared>, change: Change<CreateVolume>) -> Result<Answer<Volume>> {
    let Change { body, intent } = change;
    intent.refuse_if_match()?;
    limits::name("name", &body.name)?;
    limits::volume_path("path", &body.path)?;
    let id = VolumeId(Uuid::now_v7());
    let accepted = perform(&app.raft, &intent, Basis::Local, |_| {
        Ok(Command::CreateVolume(command::CreateVolume {
            id,
            name: body.name.clone(),
            path: body.path.clone(),
            read_only: body.read_only,
            lock: convert::to_volume_lock(body.lock),
        }))
    })
    .await?;
    let volume = shown(&accepted)?;
    let (location, revision) = (format!("/v1/volumes/{}", volume.id), volume.revision);
    Ok(Answer::accepted(StatusCode::CREATED, &accepted, volume).location(location).etag(revision))
}

/// List shared volumes.
#[utoipa::path(get, path = "/v1/volumes", tag = "volumes", params(ProjectListQuery, ProjectHeader),
    responses((status = 200, body = List<Volume>)))]
async fn list(
    State(app): State<Shared>,
    project: Project,
    Query(query): Query<ProjectListQuery>,
) -> Result<Answer<List<Volume>>> {
    let page = Page::<VolumeId>::new(query.limit, query.marker.as_deref())?;
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let state = snapshot.state();
    let project = project.known(state)?;
    let wanted = |volume: &volume::Volume| query.all_projects || volume.project == project;
    let rest = state.volumes.range(page.start()).filter(|(_, volume)| wanted(volume));
    let list = page.cut(state.revision, rest, |volume| convert::volume(state, volume));
    Ok(Answer::read(&snapshot, list))
}

/// Show a shared volume and the VMs that have it.
#[utoipa::path(get, path = "/v1/volumes/{volume}", tag = "volumes",
    params(("volume" = String, Path, description = "Name or id"), ReadQuery, ProjectHeader),
    responses((status = 200, body = Volume)))]
async fn show(
    State(app): State<Shared>,
    project: Project,
    Named(name): Named,
    Query(query): Query<ReadQuery>,
) -> Result<Answer<Volume>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let volume = convert::volume(snapshot.state(), find(snapshot.state(), &project, &name)?);
    let revision = volume.revision;
    Ok(Answer::read(&snapshot, volume).etag(revision))
}

/// Delete the record of a shared volume, never its data. Refused while a VM has it.
#[utoipa::path(delete, path = "/v1/volumes/{volume}", tag = "volumes",
    params(("volume" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    responses((status = 202, body = Deleted)))]
async fn delete(
    State(app): State<Shared>,
    name: Named,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<Deleted>> {
    let before = app.raft.state();
    let accepted = perform(&app.raft, &intent, Basis::of(&name), |state| {
        let id = find(state, &intent.project, &name.0)?.id;
        Ok(Command::DeleteVolume(command::DeleteVolume { id, expected: intent.expected }))
    })
    .await?;
    let id = subject(&accepted)?;
    let known = before.state.volumes.get(&id).map(|volume| volume.name.clone());
    Ok(Answer::deleted(&accepted, id.to_string(), known))
}

fn find<'a>(state: &'a Model, project: &Project, name: &str) -> Result<&'a volume::Volume> {
    state.find_volume(project.known(state)?, name).ok_or_else(|| Failure::not_found(Kind::Volume, name))
}

fn subject(accepted: &Accepted) -> Result<VolumeId> {
    match accepted.done.outcome {
        Outcome::Volume(id) => Ok(id),
        _ => Err(Failure::unexpected(accepted)),
    }
}

fn shown(accepted: &Accepted) -> Result<Volume> {
    let state = &accepted.published.state;
    let volume = state.volumes.get(&subject(accepted)?);
    let volume = volume.ok_or_else(|| Failure::gone(Kind::Volume, accepted))?;
    Ok(convert::volume(state, volume))
}
