//! `/v1/nodes/{node}/drain` and `/maintenance`: emptying a node, and announcing work on it. The leader's drain
//! controller does the rest; what is left is asked of the same code, so the answer is what will happen.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holm_api::{BeginMaintenance, Code, DrainNode, DrainProgress, DrainQuery, Node, ReadQuery};
use holm_model::command::{DrainRequest, SetNodeDrain, SetNodeMaintenance};
use holm_model::reply::Kind;
use holm_model::vm::{Availability, DEFAULT_STOP_TIMEOUT_S, Vm};
use holm_model::{Command, State as Model, limits, node};
use holm_sched::Policy;
use holm_sched::controllers::drain::{Outlook, may_run};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::dry_run::imagine;
use super::extract::{Change, Named, NoBody, Query};
use super::n_plus_one::think;
use super::nodes::{find, subject};
use super::openapi::{MatchHeader, WriteHeaders};
use super::problem::{Failure, Result};
use super::read::Snapshot;
use super::write::{Accepted, Basis, Intent, perform};
use super::{convert, nodes};
use crate::app::Shared;

/// Names told of VMs that stand in the way; more would hide the rest of the sentence.
const TOLD: usize = 8;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(drain, show_drain, cancel_drain))
        .routes(routes!(begin_maintenance, end_maintenance))
}

/// Empty a node: it is cordoned, failover VMs leave it, pinned ones are stopped or kept. On a node that is being
/// drained, what is given changes. With `dry_run` nothing is changed, and the answer says what would be.
#[utoipa::path(post, path = "/v1/nodes/{node}/drain", tag = "nodes",
    params(("node" = String, Path, description = "Name or id"), DrainQuery, WriteHeaders, MatchHeader),
    request_body = Option<DrainNode>,
    responses((status = 202, body = DrainProgress), (status = 200, body = DrainProgress)))]
async fn drain(
    State(app): State<Shared>,
    name: Named,
    Query(query): Query<DrainQuery>,
    change: Change<DrainNode>,
) -> Result<Response> {
    let Change { body, intent } = change;
    check_timeout(body.timeout_s)?;
    let build = |state: &Model| {
        let node = find(state, &name.0)?;
        let drain = Some(request(state, node, &body)?);
        Ok(Command::SetNodeDrain(SetNodeDrain { node: node.id, drain, expected: intent.expected }))
    };
    if query.dry_run {
        let snapshot = Snapshot::take(&app.raft, holm_api::Consistency::Linearizable).await?;
        let (imagined, _) = imagine(snapshot.state(), intent.actor(), build(snapshot.state())?)?;
        let foreseen = think(move || progress(&imagined, find(&imagined, &name.0)?)).await??;
        let foreseen = DrainProgress { since: None, dry_run: true, ..foreseen };
        return Ok(Answer::read(&snapshot, foreseen).into_response());
    }
    let accepted = perform(&app.raft, &intent, Basis::of(&name), build).await?;
    let published = Arc::clone(&accepted.published);
    let (id, gone) = (subject(&accepted)?, Failure::gone(Kind::Node, &accepted));
    let left = think(move || {
        let node = published.state.nodes.get(&id).ok_or(gone)?;
        progress(&published.state, node)
    });
    let answer = Answer::accepted(StatusCode::ACCEPTED, &accepted, left.await??);
    Ok(answer.into_response())
}

/// Show what is left on a node that is being drained, and what becomes of it.
#[utoipa::path(get, path = "/v1/nodes/{node}/drain", tag = "nodes",
    params(("node" = String, Path, description = "Name or id"), ReadQuery),
    responses((status = 200, body = DrainProgress)))]
async fn show_drain(
    State(app): State<Shared>,
    Named(name): Named,
    Query(query): Query<ReadQuery>,
) -> Result<Answer<DrainProgress>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let published = snapshot.published();
    let progress = think(move || progress(&published.state, find(&published.state, &name)?)).await??;
    Ok(Answer::read(&snapshot, progress))
}

/// Call a drain off. What has left stays away, what was stopped stays off, and the node stays cordoned, until it
/// is uncordoned.
#[utoipa::path(delete, path = "/v1/nodes/{node}/drain", tag = "nodes",
    params(("node" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    responses((status = 200, body = Node)))]
async fn cancel_drain(
    State(app): State<Shared>,
    name: Named,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<Node>> {
    change(&app, &intent, &name, StatusCode::OK, |_, node| {
        Ok(Command::SetNodeDrain(SetNodeDrain { node: node.id, drain: None, expected: intent.expected }))
    })
    .await
}

/// Announce work on a machine: its node is cordoned, drained, and not fenced until maintenance ends, also while it
/// is off and across its boots.
#[utoipa::path(put, path = "/v1/nodes/{node}/maintenance", tag = "nodes",
    params(("node" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    request_body = Option<BeginMaintenance>,
    responses((status = 202, body = Node)))]
async fn begin_maintenance(
    State(app): State<Shared>,
    name: Named,
    body: Change<BeginMaintenance>,
) -> Result<Answer<Node>> {
    let Change { body, intent } = body;
    check_timeout(body.timeout_s)?;
    if let Some(reason) = &body.reason {
        limits::text("reason", reason, limits::MESSAGE_MAX)?;
    }
    let drain = DrainNode { timeout_s: body.timeout_s, pinned: body.pinned };
    change(&app, &intent, &name, StatusCode::ACCEPTED, |state, node| {
        Ok(Command::SetNodeMaintenance(SetNodeMaintenance {
            node: node.id,
            on: true,
            reason: body.reason.clone(),
            drain: Some(request(state, node, &drain)?),
            expected: intent.expected,
        }))
    })
    .await
}

/// End maintenance: the node takes VMs again, and those its drain stopped are started.
#[utoipa::path(delete, path = "/v1/nodes/{node}/maintenance", tag = "nodes",
    params(("node" = String, Path, description = "Name or id"), WriteHeaders, MatchHeader),
    responses((status = 200, body = Node)))]
async fn end_maintenance(
    State(app): State<Shared>,
    name: Named,
    Change { intent, .. }: Change<NoBody>,
) -> Result<Answer<Node>> {
    change(&app, &intent, &name, StatusCode::OK, |_, node| {
        Ok(Command::SetNodeMaintenance(SetNodeMaintenance {
            node: node.id,
            on: false,
            reason: None,
            drain: None,
            expected: intent.expected,
        }))
    })
    .await
}

async fn change(
    app: &Shared,
    intent: &Intent,
    name: &Named,
    status: StatusCode,
    build: impl Fn(&Model, &node::Node) -> Result<Command>,
) -> Result<Answer<Node>> {
    let build = |state: &Model| build(state, find(state, &name.0)?);
    let accepted: Accepted = perform(&app.raft, intent, Basis::of(name), build).await?;
    let node = nodes::shown(app, &accepted)?;
    let revision = node.revision;
    Ok(Answer::accepted(status, &accepted, node).etag(revision))
}

fn check_timeout(timeout_s: Option<u32>) -> Result<()> {
    let most = limits::STOP_TIMEOUT_S_MAX;
    match timeout_s {
        Some(timeout_s) if timeout_s == 0 || timeout_s > most => {
            Err(Failure::invalid("timeout_s", format!("is {timeout_s}, must be 1 to {most}")))
        }
        _ => Ok(()),
    }
}

/// What is not given is as the drain that goes on has it. Stopping pinned VMs is never a default, and neither is
/// leaving them on a machine that somebody wants to switch off.
fn request(state: &Model, node: &node::Node, body: &DrainNode) -> Result<DrainRequest> {
    let stop_timeout_s = body.timeout_s.or(node.drain.map(|drain| drain.stop_timeout_s));
    let pinned = body.pinned.map(convert::to_drain_pinned).or(node.drain.map(|drain| drain.pinned));
    let pinned = match pinned {
        Some(pinned) => pinned,
        None => {
            let there = state.vms_on(node.id).filter(|vm| is_pinned(vm) && may_run(vm));
            let names: Vec<String> = there.map(|vm| convert::vm_name(state, vm.id)).collect();
            if !names.is_empty() {
                return Err(say_what_of_pinned(node, &names));
            }
            node::DrainPinned::Keep
        }
    };
    Ok(DrainRequest { stop_timeout_s: stop_timeout_s.unwrap_or(DEFAULT_STOP_TIMEOUT_S), pinned })
}

fn is_pinned(vm: &Vm) -> bool {
    vm.spec.availability == Availability::Pinned
}

fn say_what_of_pinned(node: &node::Node, names: &[String]) -> Failure {
    let more = if names.len() > TOLD { format!(" and {} more", names.len() - TOLD) } else { String::new() };
    let listed = names[..names.len().min(TOLD)].join(", ");
    let verb = if names.len() == 1 { "runs" } else { "run" };
    let detail = format!(
        "`pinned` is missing: {listed}{more} {verb} on {} and {verb} nowhere else; say what becomes of them",
        node.name
    );
    Failure::new(Code::MissingField, detail).field("pinned").hint(
        "`stop` shuts them down, and starts them when the node is uncordoned; `keep` lets them run, so the machine \
         cannot be switched off",
    )
}

fn progress(state: &Model, node: &node::Node) -> Result<DrainProgress> {
    let drain = convert::node_drain(state, node).ok_or_else(|| {
        Failure::new(Code::NotFound, format!("node `{}` is not being drained", node.name))
            .hint("POST to the same path begins a drain")
    })?;
    let policy = Policy::of(&state.scheduler);
    let outlook = Outlook::new(state, &policy, &BTreeSet::new());
    let left = outlook.left.iter().filter(|left| left.node == node.id);
    Ok(DrainProgress {
        node: node.name.clone(),
        node_id: node.id.0,
        node_up: node.up,
        since: Some(drain.since),
        maintenance: node.maintenance.is_some(),
        stop_timeout_s: drain.stop_timeout_s,
        pinned: drain.pinned,
        done: drain.done,
        left: left.map(|left| convert::left_vm(state, &outlook, left)).collect(),
        dry_run: false,
        revision: state.revision.0,
    })
}
