//! `/v1/n-plus-one`: whether the cluster could lose any one node and still hold its failover VMs; and the
//! admission of new ones by it. Admission is asked on the state this node read: creations at the same moment may
//! together go too far, and then everybody who asks is told.

use std::sync::Arc;

use axum::extract::State;
use holm_api::{Code, NPlusOneVerdict, NodeLoss, ReadQuery};
use holm_model::policy::NPlusOne;
use holm_model::vm::Availability;
use holm_model::{Actor, Command, State as Model};
use holm_raft::handle::Published;
use holm_sched::n_plus_one::Loss;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::extract::Query;
use super::problem::{Failure, Result};
use super::read::Snapshot;
use super::{ACTOR, PROJECT, convert};
use crate::app::Shared;
use crate::clock;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Say whether the cluster could lose any one node and still hold its failover VMs.
#[utoipa::path(get, path = "/v1/n-plus-one", tag = "what-if", params(ReadQuery),
    responses((status = 200, body = NPlusOneVerdict)))]
async fn show(State(app): State<Shared>, Query(query): Query<ReadQuery>) -> Result<Answer<NPlusOneVerdict>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let published = snapshot.published();
    let verdict = think(move || verdict(&published.state)).await?;
    Ok(Answer::read(&snapshot, verdict))
}

fn verdict(state: &Model) -> NPlusOneVerdict {
    let verdict = holm_sched::n_plus_one(state);
    let loss = |loss: &Loss| NodeLoss {
        node: convert::node_name(state, loss.node),
        node_id: loss.node.0,
        vms: loss.vms as u64,
        stuck: loss.stuck.iter().map(|vm| convert::vm_name(state, *vm)).collect(),
        missing: convert::amounts(&loss.missing),
    };
    NPlusOneVerdict {
        policy: convert::n_plus_one(state.scheduler.n_plus_one),
        holds: verdict.holds(),
        summary: summary(&verdict),
        vms: verdict.vms as u64,
        waiting: verdict.waiting.iter().map(|vm| convert::vm_name(state, *vm)).collect(),
        losses: verdict.losses.iter().map(loss).collect(),
        sentences: verdict.sentences(state),
        revision: state.revision.0,
    }
}

fn summary(verdict: &holm_sched::NPlusOne) -> String {
    match (verdict.vms, verdict.holds()) {
        (0, _) => "there are no failover VMs".to_owned(),
        (vms, true) => format!("any one node may go: all {vms} failover VMs would find a host"),
        (_, false) if verdict.losses.is_empty() => {
            "there are failover VMs that fit nowhere even now".to_owned()
        }
        (_, false) => format!("the cluster cannot do without {} of its nodes", verdict.losses.len()),
    }
}

/// What the policy's `n_plus_one` says to a creation: warnings for its answer.
///
/// # Errors
/// `n_plus_one`, when the policy refuses; or what the creation itself would be refused with.
pub async fn admit(app: &Shared, command: Command) -> Result<Vec<String>> {
    let failover = match &command {
        Command::CreateVm(vm) => vm.availability == Availability::Failover,
        Command::CreateVms(vms) => vms.items.iter().any(|vm| vm.availability == Availability::Failover),
        _ => false,
    };
    if !failover || app.raft.state().state.scheduler.n_plus_one == NPlusOne::Off {
        return Ok(Vec::new());
    }
    let snapshot = Snapshot::take(&app.raft, holm_api::Consistency::Linearizable).await?;
    let published = snapshot.published();
    let actor = Actor { name: ACTOR.to_owned(), project: PROJECT.to_owned() };
    let (sentences, refuse) = think(move || {
        let state = &published.state;
        // What apply itself refuses, it refuses better.
        let verdict = holm_sched::n_plus_one_after(state, clock::now(), &actor, &command).unwrap_or_default();
        (verdict.sentences(state), state.scheduler.n_plus_one == NPlusOne::Refuse)
    })
    .await?;
    if refuse && !sentences.is_empty() {
        let detail =
            format!("with it, the cluster could no longer lose any one node: {}", sentences.join("; "));
        return Err(Failure::new(Code::NPlusOne, detail).field("availability").hint(
            "add a node or make room (`holm cluster what-if --lose NODE` shows what would fit where), create it pinned, \
             or allow it with `holm scheduler set --n-plus-one warn`",
        ));
    }
    Ok(sentences.into_iter().map(|sentence| format!("N+1: {sentence}")).collect())
}

/// What the policy warns of in the state as it is.
///
/// # Errors
/// Only a bug in the answer.
pub async fn warnings(published: Arc<Published>) -> Result<Vec<String>> {
    if published.state.scheduler.n_plus_one == NPlusOne::Off {
        return Ok(Vec::new());
    }
    let sentences =
        think(move || holm_sched::n_plus_one(&published.state).sentences(&published.state)).await?;
    Ok(sentences.into_iter().map(|sentence| format!("N+1: {sentence}")).collect())
}

/// Thinking about many VMs takes a while: not on a thread that serves others.
pub async fn think<T: Send + 'static>(thought: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let thought = tokio::task::spawn_blocking(thought).await;
    thought
        .map_err(|error| Failure::new(Code::Internal, format!("the question could not be answered: {error}")))
}
