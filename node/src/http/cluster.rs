//! `/v1/cluster`: who the members are, and what this node has applied.

use axum::extract::State;
use holm_api::{Checkpoint, Cluster, Code, Member, ReadQuery};
use holm_model::State as Model;
use holm_raft::handle::RaftStatus;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::convert;
use super::extract::Query;
use super::problem::{Failure, Result};
use super::read::Snapshot;
use crate::app::{App, Shared};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(show)).routes(routes!(checkpoint))
}

/// Show the cluster as the answering node sees it.
#[utoipa::path(get, path = "/v1/cluster", tag = "cluster", params(ReadQuery),
    responses((status = 200, body = Cluster)))]
async fn show(State(app): State<Shared>, Query(query): Query<ReadQuery>) -> Result<Answer<Cluster>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let status = app.raft.status().borrow().clone();
    let cluster = cluster(&app, snapshot.state(), &status)?;
    Ok(Answer::read(&snapshot, cluster))
}

fn cluster(app: &App, state: &Model, status: &RaftStatus) -> Result<Cluster> {
    let cluster = state.cluster.as_ref().ok_or_else(|| {
        Failure::new(Code::Unavailable, "this node has not received the cluster's state yet")
            .hint("try again")
    })?;
    let members = state.nodes.values().map(|node| Member {
        id: node.id.0,
        name: node.name.clone(),
        role: convert::role(status, node.id),
        up: node.up,
        peer_addr: node.peer_addr.clone(),
        api_addr: node.api_addr.clone(),
        silent_ms: status.silent_ms.get(&node.id).copied(),
        matched_index: status.matched.get(&node.id).copied(),
    });
    Ok(Cluster {
        id: cluster.id.0,
        name: cluster.name.clone(),
        created_at: convert::timestamp(cluster.created_at),
        version: cluster.version,
        leader: status.leader.map(|leader| convert::node_ref(state, leader)),
        term: status.term,
        members: members.collect(),
        node: convert::node_ref(state, app.raft.node_id()),
        applied_index: status.applied_index,
        last_log_index: status.last_log_index,
        snapshot_index: status.snapshot_index,
        freeze: state.freeze.as_ref().map(convert::freeze),
        revision: state.revision.0,
    })
}

/// The hash of what this node has applied; nodes at the same log index have the same. Never asks a leader.
#[utoipa::path(get, path = "/v1/cluster/checkpoint", tag = "cluster",
    responses((status = 200, body = Checkpoint)))]
async fn checkpoint(State(app): State<Shared>) -> Result<Answer<Checkpoint>> {
    let snapshot = Snapshot::take(&app.raft, holm_api::Consistency::Stale).await?;
    let published = snapshot.published();
    let node_id = app.raft.node_id();
    // A large state takes milliseconds to encode: not on a thread that serves others.
    let body = tokio::task::spawn_blocking(move || Checkpoint {
        node: convert::node_name(&published.state, node_id),
        node_id: node_id.0,
        log_index: published.log_index,
        revision: published.state.revision.0,
        state_hash: holm_model::snapshot::hash(&published.state),
    })
    .await
    .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
    Ok(Answer::read(&snapshot, body))
}
