//! `/v1/nodes`: list, show, cordon, describe, remove. Nodes are added by `holmd join`.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::StatusCode;
use holm_api::{Code, Deleted, Effect, List, ListQuery, Node, PatchNode, ReadQuery, RemoveNodeQuery};
use holm_model::reply::{Kind, Outcome};
use holm_model::{Command, NodeId, State as Model, command, limits, node};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

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
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show, patch, remove))
}

/// List nodes.
#[utoipa::path(get, path = "/v1/nodes", tag = "nodes", params(ListQuery),
    responses((status = 200, body = List<Node>)))]
async fn list(State(app): State<Shared>, Query(query): Query<ListQuery>) -> Result<Answer<List<Node>>> {
    let page = Page::<NodeId>::new(query.limit, query.marker.as_deref())?;
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let state = snapshot.state();
    let status = app.raft.status().borrow().clone();
    let show = |node: &node::Node| convert::node(state, &status, node);
    let list = page.cut(state.revision, state.nodes.range(page.start()), show);
    Ok(Answer::read(&snapshot, list))
}

/// Show a node.
#[utoipa::path(get, path = "/v1/nodes/{node}", tag = "nodes",
    params(("node" = String, Path, description = "Name or id"), ReadQuery),
    responses((status = 200, body = Node)))]
async fn show(
    State(app): State<Shared>,
    Named(name): Named,
    Query(query): Query<ReadQuery>,
) -> Result<Answer<Node>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let status = app.raft.status().borrow().clone();
    let node = convert::node(snapshot.state(), &status, find(snapshot.state(), &name)?);
    let revision = node.revision;
    Ok(Answer::read(&snapshot, node).etag(revision))
}

/// Cordon (`enabled: false`) or uncordon a node, or change its labels, taints, traits and inventory
/// overrides. What runs there stays.
#[utoipa::path(patch, path = "/v1/nodes/{node}", tag = "nodes",
    params(("node" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    request_body = PatchNode,
    responses((status = 200, body = Node)))]
async fn patch(State(app): State<Shared>, name: Named, change: Change<PatchNode>) -> Result<Answer<Node>> {
    let Change { body, intent } = change;
    check(&body)?;
    let inventory = convert::to_overrides(&body.inventory)?;
    let accepted = perform(&app.raft, &intent, Basis::of(&name), |state| {
        let node = find(state, &name.0)?.id;
        let expected = intent.expected;
        Ok(match body.enabled {
            Some(enabled) => {
                let reason = body.reason.clone();
                Command::SetNodeEnabled(command::SetNodeEnabled { node, enabled, reason, expected })
            }
            None => Command::UpdateNode(command::UpdateNode {
                node,
                labels: body.labels.clone(),
                taints: body.taints.as_ref().map(|taints| taints.iter().map(convert::to_taint).collect()),
                traits: body.traits.as_ref().map(|traits| traits.iter().cloned().collect()),
                inventory: inventory.clone(),
                expected,
            }),
        })
    })
    .await?;
    let node = shown(&app, &accepted)?;
    let revision = node.revision;
    Ok(Answer::accepted(StatusCode::OK, &accepted, node).etag(revision))
}

/// Cordoning and describing a node are two changes, and a request makes one.
fn check(body: &PatchNode) -> Result<()> {
    let given = [
        ("labels", !body.labels.is_empty()),
        ("taints", body.taints.is_some()),
        ("traits", body.traits.is_some()),
        ("inventory", !body.inventory.is_empty()),
    ];
    once("taints", body.taints.iter().flatten().map(|taint| (&taint.key, Some(taint.effect))))?;
    once("traits", body.traits.iter().flatten().map(|name| (name, None)))?;
    let described = given.into_iter().find_map(|(field, given)| given.then_some(field));
    let missing = |message: &str| Failure::new(Code::MissingField, message).field("enabled");
    match (body.enabled, &body.reason, described) {
        (Some(_), _, Some(field)) => Err(Failure::invalid(field, "does not go with `enabled`")
            .hint("send two requests: one to cordon or uncordon, one for the rest")),
        (None, Some(_), _) => Err(missing("`enabled` is missing: `reason` goes with `enabled: false`")),
        (None, None, None) => Err(missing("nothing to change is given: `enabled`, `labels`, `taints` …")),
        (Some(_), Some(reason), None) => Ok(limits::text("reason", reason, limits::MESSAGE_MAX)?),
        (Some(_), None, None) | (None, None, Some(_)) => Ok(()),
    }
}

/// What is listed twice was meant once, or otherwise.
fn once<'a>(field: &str, all: impl IntoIterator<Item = (&'a String, Option<Effect>)>) -> Result<()> {
    let mut seen = BTreeSet::new();
    match all.into_iter().find(|item| !seen.insert(*item)) {
        Some((name, _)) => Err(Failure::invalid(field, format!("has `{name}` twice"))),
        None => Ok(()),
    }
}

/// Remove a node for good. Refused while VMs have claims there, unless you state that the machine is off.
#[utoipa::path(delete, path = "/v1/nodes/{node}", tag = "nodes",
    params(("node" = String, Path, description = "Name or id"), RemoveNodeQuery, WriteHeaders),
    responses((status = 202, body = Deleted)))]
async fn remove(
    State(app): State<Shared>,
    name: Named,
    Query(query): Query<RemoveNodeQuery>,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<Deleted>> {
    intent.refuse_if_match()?;
    let before = app.raft.state();
    let accepted = perform(&app.raft, &intent, Basis::of(&name), |state| {
        let node = find(state, &name.0)?.id;
        Ok(Command::RemoveNode(command::RemoveNode { node, confirm_node_off: query.confirm_node_off }))
    })
    .await?;
    let id = subject(&accepted)?;
    let known = before.state.nodes.get(&id).map(|node| node.name.clone());
    Ok(Answer::deleted(&accepted, id.to_string(), known))
}

/// A node by name or id.
pub fn find<'a>(state: &'a Model, name: &str) -> Result<&'a node::Node> {
    state.find_node(name).ok_or_else(|| Failure::not_found(Kind::Node, name))
}

/// The node that was changed, as it is then.
pub fn shown(app: &Shared, accepted: &Accepted) -> Result<Node> {
    let state = &accepted.published.state;
    let node = state.nodes.get(&subject(accepted)?).ok_or_else(|| Failure::gone(Kind::Node, accepted))?;
    Ok(convert::node(state, &app.raft.status().borrow(), node))
}

/// Which node was changed.
pub fn subject(accepted: &Accepted) -> Result<NodeId> {
    match accepted.done.outcome {
        Outcome::Node(id) => Ok(id),
        _ => Err(Failure::unexpected(accepted)),
    }
}
