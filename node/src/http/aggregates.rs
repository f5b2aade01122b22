//! `/v1/aggregates` and `/v1/availability-zones`: nodes with something in common, and the zones that
//! aggregates make.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::StatusCode;
use holm_api::{
    Aggregate, AvailabilityZone, Code, CreateAggregate, Deleted, List, ListQuery, PatchAggregate, ReadQuery,
};
use holm_model::reply::{Kind, Outcome};
use holm_model::{AggregateId, Command, NodeId, State as Model, aggregate, command, limits};
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
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(show, patch, delete))
        .routes(routes!(zones))
        .routes(routes!(zone))
}

/// Create an aggregate.
#[utoipa::path(post, path = "/v1/aggregates", tag = "aggregates", params(WriteHeaders),
    request_body = CreateAggregate,
    responses((status = 201, body = Aggregate)))]
async fn create(State(app): State<Shared>, change: Change<CreateAggregate>) -> Result<Answer<Aggregate>> {
    let Change { body, intent } = change;
    intent.refuse_if_match()?;
    limits::name("name", &body.name)?;
    limits::map("metadata", &body.metadata)?;
    let id = AggregateId(Uuid::now_v7());
    let basis = Basis::of_all(body.nodes.iter().map(String::as_str));
    let accepted = perform(&app.raft, &intent, basis, |state| {
        let nodes = nodes(state, "nodes", &body.nodes)?;
        let CreateAggregate { name, metadata, .. } = body.clone();
        Ok(Command::CreateAggregate(command::CreateAggregate { id, name, nodes, metadata }))
    })
    .await?;
    let aggregate = shown(&accepted)?;
    let (location, revision) = (format!("/v1/aggregates/{}", aggregate.id), aggregate.revision);
    Ok(Answer::accepted(StatusCode::CREATED, &accepted, aggregate).location(location).etag(revision))
}

/// List aggregates.
#[utoipa::path(get, path = "/v1/aggregates", tag = "aggregates", params(ListQuery),
    responses((status = 200, body = List<Aggregate>)))]
async fn list(State(app): State<Shared>, Query(query): Query<ListQuery>) -> Result<Answer<List<Aggregate>>> {
    let page = Page::<AggregateId>::new(query.limit, query.marker.as_deref())?;
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let state = snapshot.state();
    let show = |aggregate: &aggregate::Aggregate| convert::aggregate(state, aggregate);
    let list = page.cut(state.revision, state.aggregates.range(page.start()), show);
    Ok(Answer::read(&snapshot, list))
}

/// Show an aggregate.
#[utoipa::path(get, path = "/v1/aggregates/{aggregate}", tag = "aggregates",
    params(("aggregate" = String, Path, description = "Name or id"), ReadQuery),
    responses((status = 200, body = Aggregate)))]
async fn show(
    State(app): State<Shared>,
    Named(name): Named,
    Query(query): Query<ReadQuery>,
) -> Result<Answer<Aggregate>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let aggregate = convert::aggregate(snapshot.state(), find(snapshot.state(), &name)?);
    let revision = aggregate.revision;
    Ok(Answer::read(&snapshot, aggregate).etag(revision))
}

/// Change an aggregate's name, nodes, metadata or inventory overrides.
#[utoipa::path(patch, path = "/v1/aggregates/{aggregate}", tag = "aggregates",
    params(("aggregate" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    request_body = PatchAggregate,
    responses((status = 200, body = Aggregate)))]
async fn patch(
    State(app): State<Shared>,
    name: Named,
    change: Change<PatchAggregate>,
) -> Result<Answer<Aggregate>> {
    let Change { body, intent } = change;
    let inventory = convert::to_overrides(&body.inventory)?;
    let named = [&name.0].into_iter().chain(&body.add_nodes).chain(&body.remove_nodes);
    let basis = Basis::of_all(named.map(String::as_str));
    let accepted = perform(&app.raft, &intent, basis, |state| {
        Ok(Command::UpdateAggregate(command::UpdateAggregate {
            id: find(state, &name.0)?.id,
            name: body.name.clone(),
            add_nodes: nodes(state, "add_nodes", &body.add_nodes)?,
            remove_nodes: nodes(state, "remove_nodes", &body.remove_nodes)?,
            metadata: body.metadata.clone(),
            inventory: inventory.clone(),
            expected: intent.expected,
        }))
    })
    .await?;
    let aggregate = shown(&accepted)?;
    let revision = aggregate.revision;
    Ok(Answer::accepted(StatusCode::OK, &accepted, aggregate).etag(revision))
}

/// Delete an aggregate. Refused while it has nodes.
#[utoipa::path(delete, path = "/v1/aggregates/{aggregate}", tag = "aggregates",
    params(("aggregate" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    responses((status = 202, body = Deleted)))]
async fn delete(
    State(app): State<Shared>,
    name: Named,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<Deleted>> {
    let before = app.raft.state();
    let accepted = perform(&app.raft, &intent, Basis::of(&name), |state| {
        let id = find(state, &name.0)?.id;
        Ok(Command::DeleteAggregate(command::DeleteAggregate { id, expected: intent.expected }))
    })
    .await?;
    let id = subject(&accepted)?;
    let known = before.state.aggregates.get(&id).map(|aggregate| aggregate.name.clone());
    Ok(Answer::deleted(&accepted, id.to_string(), known))
}

/// List availability zones. They are made by aggregates whose metadata has `availability_zone`.
#[utoipa::path(get, path = "/v1/availability-zones", tag = "availability-zones", params(ListQuery),
    responses((status = 200, body = List<AvailabilityZone>)))]
async fn zones(
    State(app): State<Shared>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<List<AvailabilityZone>>> {
    let page = Page::<String>::new(query.limit, query.marker.as_deref())?;
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let zones = convert::zones(snapshot.state());
    let list = page.cut(snapshot.state().revision, zones.range(page.start()), AvailabilityZone::clone);
    Ok(Answer::read(&snapshot, list))
}

/// Show an availability zone.
#[utoipa::path(get, path = "/v1/availability-zones/{zone}", tag = "availability-zones",
    params(("zone" = String, Path, description = "Name"), ReadQuery),
    responses((status = 200, body = AvailabilityZone)))]
async fn zone(
    State(app): State<Shared>,
    Named(name): Named,
    Query(query): Query<ReadQuery>,
) -> Result<Answer<AvailabilityZone>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let zone = convert::zones(snapshot.state()).remove(&name).ok_or_else(|| {
        Failure::new(Code::NotFound, format!("there is no availability zone `{name}`"))
            .hint("`holm az list` shows what there is; an aggregate makes one: `holm aggregate create NAME --zone ZONE`")
    })?;
    Ok(Answer::read(&snapshot, zone))
}

fn nodes(state: &Model, field: &str, names: &[String]) -> Result<BTreeSet<NodeId>> {
    let one = |name: &String| {
        let node = state.find_node(name).map(|node| node.id);
        node.ok_or_else(|| Failure::unknown_reference(field, Kind::Node, name))
    };
    names.iter().map(one).collect()
}

fn find<'a>(state: &'a Model, name: &str) -> Result<&'a aggregate::Aggregate> {
    state.find_aggregate(name).ok_or_else(|| Failure::not_found(Kind::Aggregate, name))
}

fn subject(accepted: &Accepted) -> Result<AggregateId> {
    match accepted.done.outcome {
        Outcome::Aggregate(id) => Ok(id),
        _ => Err(Failure::unexpected(accepted)),
    }
}

fn shown(accepted: &Accepted) -> Result<Aggregate> {
    let state = &accepted.published.state;
    let aggregate = state.aggregates.get(&subject(accepted)?);
    let aggregate = aggregate.ok_or_else(|| Failure::gone(Kind::Aggregate, accepted))?;
    Ok(convert::aggregate(state, aggregate))
}
