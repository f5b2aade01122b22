//! `/v1/flavors`.

use axum::extract::State;
use axum::http::StatusCode;
use holm_api::{CreateFlavor, Deleted, Flavor, List, ListQuery, ReadQuery};
use holm_model::flavor::Size;
use holm_model::reply::{Kind, Outcome};
use holm_model::{Command, FlavorId, command, limits};
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
use super::write::{Accepted, Basis, perform};
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(show, delete))
}

/// Create a flavor.
#[utoipa::path(post, path = "/v1/flavors", tag = "flavors", params(WriteHeaders),
    request_body = CreateFlavor,
    responses((status = 201, body = Flavor)))]
async fn create(State(app): State<Shared>, change: Change<CreateFlavor>) -> Result<Answer<Flavor>> {
    let Change { body, intent } = change;
    intent.refuse_if_match()?;
    let size = Size { vcpus: body.vcpus, memory_mib: body.memory_mib, disk_gib: body.disk_gib };
    limits::name("name", &body.name)?;
    limits::size(&size)?;
    let id = FlavorId(Uuid::now_v7());
    let accepted = perform(&app.raft, &intent, Basis::Local, |_| {
        let CreateFlavor { name, extra_specs, .. } = body.clone();
        Ok(Command::CreateFlavor(command::CreateFlavor { id, name, size, extra_specs }))
    })
    .await?;
    let id = subject(&accepted)?;
    let flavor = accepted.published.state.flavors.get(&id).map(convert::flavor);
    let flavor = flavor.ok_or_else(|| Failure::gone(Kind::Flavor, &accepted))?;
    let (location, revision) = (format!("/v1/flavors/{}", flavor.id), flavor.revision);
    Ok(Answer::accepted(StatusCode::CREATED, &accepted, flavor).location(location).etag(revision))
}

/// List flavors.
#[utoipa::path(get, path = "/v1/flavors", tag = "flavors", params(ListQuery),
    responses((status = 200, body = List<Flavor>)))]
async fn list(State(app): State<Shared>, Query(query): Query<ListQuery>) -> Result<Answer<List<Flavor>>> {
    let page = Page::<FlavorId>::new(query.limit, query.marker.as_deref())?;
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let state = snapshot.state();
    let list = page.cut(state.revision, state.flavors.range(page.start()), convert::flavor);
    Ok(Answer::read(&snapshot, list))
}

/// Show a flavor.
#[utoipa::path(get, path = "/v1/flavors/{flavor}", tag = "flavors",
    params(("flavor" = String, Path, description = "Name or id"), ReadQuery),
    responses((status = 200, body = Flavor)))]
async fn show(
    State(app): State<Shared>,
    Named(name): Named,
    Query(query): Query<ReadQuery>,
) -> Result<Answer<Flavor>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let flavor = snapshot.state().find_flavor(&name);
    let flavor = convert::flavor(flavor.ok_or_else(|| Failure::not_found(Kind::Flavor, &name))?);
    let revision = flavor.revision;
    Ok(Answer::read(&snapshot, flavor).etag(revision))
}

/// Delete a flavor. VMs made from it keep their sizes.
#[utoipa::path(delete, path = "/v1/flavors/{flavor}", tag = "flavors",
    params(("flavor" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    responses((status = 202, body = Deleted)))]
async fn delete(
    State(app): State<Shared>,
    name: Named,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<Deleted>> {
    let before = app.raft.state();
    let accepted = perform(&app.raft, &intent, Basis::of(&name), |state| {
        let flavor = state.find_flavor(&name.0).ok_or_else(|| Failure::not_found(Kind::Flavor, &name.0))?;
        Ok(Command::DeleteFlavor(command::DeleteFlavor { id: flavor.id, expected: intent.expected }))
    })
    .await?;
    let id = subject(&accepted)?;
    let known = before.state.flavors.get(&id).map(|flavor| flavor.name.clone());
    Ok(Answer::deleted(&accepted, id.to_string(), known))
}

fn subject(accepted: &Accepted) -> Result<FlavorId> {
    match accepted.done.outcome {
        Outcome::Flavor(id) => Ok(id),
        _ => Err(Failure::unexpected(accepted)),
    }
}
