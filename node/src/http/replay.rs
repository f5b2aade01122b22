//! `/v1/vms/{vm}/replay`: the last decision about a VM, made again on the state it was made on, which this node makes
//! anew from its snapshot and log. What it takes is as much as a restart applies.

use axum::extract::State;
use holm_api::{Code, ReadQuery, Replay};
use holm_model::State as Model;
use holm_model::vm::Decision;
use holm_raft::HistoryError;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::convert;
use super::extract::{Named, Query};
use super::n_plus_one::think;
use super::openapi::ProjectHeader;
use super::problem::{Failure, Result};
use super::project::Project;
use super::read::{READ_TIMEOUT, Snapshot};
use super::vms::find;
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(replay))
}

/// Make the last decision about a VM again, on the state it was made on, and compare.
#[utoipa::path(get, path = "/v1/vms/{vm}/replay", tag = "vms",
    params(("vm" = String, Path, description = "Name or id"), ReadQuery, ProjectHeader),
    responses((status = 200, body = Replay)))]
async fn replay(
    State(app): State<Shared>,
    project: Project,
    Named(name): Named,
    Query(query): Query<ReadQuery>,
) -> Result<Answer<Replay>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let state = snapshot.state();
    let vm = find(state, &project, &name)?;
    let made = vm.decision.as_ref().ok_or_else(|| {
        Failure::new(Code::WrongState, format!("nothing was decided about VM `{}` yet", vm.name))
    })?;
    let turn = tokio::time::timeout(READ_TIMEOUT, app.replaying.lock()).await.map_err(|_| {
        Failure::new(Code::Unavailable, "other decisions are being made again, and that takes long")
            .hint("try again")
    })?;
    let seen = app.raft.state_at(made.seen).await.map_err(|error| unknown(&error))?;
    let (id, of) = (vm.id, made.clone());
    let again = think(move || holm_sched::decide_again(&seen, id, &of)).await?;
    drop(turn);
    let replay = Replay {
        vm: vm.name.clone(),
        same: again == *made,
        differences: differences(state, made, &again),
        decision: convert::decision(state, made),
        again: convert::decision(state, &again),
    };
    Ok(Answer::read(&snapshot, replay))
}

fn unknown(error: &HistoryError) -> Failure {
    match error {
        HistoryError::Gone { .. } => Failure::new(Code::Compacted, error.to_string()).hint(
            "a node whose snapshot is older may still have it: ask another one (`holm --endpoint`); a decision can be \
             made again while the snapshot is not newer than it",
        ),
        HistoryError::Ahead { .. } => Failure::new(Code::Unavailable, error.to_string()).hint("try again"),
        HistoryError::Snapshot(_) | HistoryError::Log(_) | HistoryError::Entry(_) => {
            Failure::new(Code::Internal, error.to_string())
        }
    }
}

/// What is not the same, in words.
fn differences(state: &Model, made: &Decision, again: &Decision) -> Vec<String> {
    let host = |decision: &Decision| {
        let chosen = decision.scores.first().map(|score| convert::node_name(state, score.node));
        chosen.unwrap_or_else(|| "none".to_owned())
    };
    let mut differences = Vec::new();
    let mut compare = |what: &str, made: String, again: String| {
        if made != again {
            differences.push(format!("{what}: {made} then, {again} now"));
        }
    };
    compare("node", host(made), host(again));
    compare("nodes that fitted", made.candidates.to_string(), again.candidates.to_string());
    compare("policy of revision", made.policy.to_string(), again.policy.to_string());
    compare("scores", scores(state, made), scores(state, again));
    differences
}

fn scores(state: &Model, decision: &Decision) -> String {
    let one = |score: &holm_model::vm::Score| {
        format!("{} {}", convert::node_name(state, score.node), score.score_millionths)
    };
    decision.scores.iter().map(one).collect::<Vec<_>>().join(", ")
}
