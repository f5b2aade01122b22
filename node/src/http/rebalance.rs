//! `/v1/rebalance`: a plan of moves for a better balance, and its beginning. The scheduler plans, apply checks each
//! move again; what leaves its node is placed on the one it was moved to, if it still fits there.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use holm_api::{PlannedMove, Rebalance, RebalanceQuery, RefusedMove, StartRebalance, Staying};
use holm_model::command::{MoveVms, Relocation};
use holm_model::reply::Outcome;
use holm_model::vm::{DEFAULT_STOP_TIMEOUT_S, StopMode};
use holm_model::{Command, State as Model};
use holm_sched::Policy;
use holm_sched::rebalance::{Bounds, Plan};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::convert;
use super::extract::{Change, Query};
use super::n_plus_one::think;
use super::openapi::WriteHeaders;
use super::problem::{Failure, Result};
use super::read::Snapshot;
use super::write::{Basis, perform};
use crate::app::Shared;

/// Most moves of one plan.
const MOVES_MAX: u32 = 100;
/// How many VMs that stay are named for each reason.
const NAMES_MAX: usize = 10;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(plan, start))
}

/// Plan moves for a better balance. Nothing changes.
#[utoipa::path(get, path = "/v1/rebalance", tag = "rebalance", params(RebalanceQuery),
    responses((status = 200, body = Rebalance)))]
async fn plan(State(app): State<Shared>, Query(query): Query<RebalanceQuery>) -> Result<Answer<Rebalance>> {
    let bounds = bounds(query.max_moves, query.min_gain)?;
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let published = snapshot.published();
    let rebalance = think(move || shown(&published.state, &planned(&published.state, bounds))).await?;
    Ok(Answer::read(&snapshot, rebalance))
}

/// Make the moves of a plan made now. Each VM is stopped and started on its new node.
#[utoipa::path(post, path = "/v1/rebalance", tag = "rebalance", params(WriteHeaders),
    request_body = StartRebalance,
    responses((status = 202, body = Rebalance), (status = 200, description = "Nothing to move", body = Rebalance)))]
async fn start(
    State(app): State<Shared>,
    Change { body, intent }: Change<StartRebalance>,
) -> Result<Answer<Rebalance>> {
    intent.refuse_if_match()?;
    let bounds = bounds(body.max_moves, body.min_gain)?;
    let snapshot = Snapshot::take(&app.raft, holm_api::Consistency::Linearizable).await?;
    let published = snapshot.published();
    let (moves, mut rebalance) = think(move || {
        let plan = planned(&published.state, bounds);
        (relocations(&published.state, &plan), shown(&published.state, &plan))
    })
    .await?;
    if moves.is_empty() {
        return Ok(Answer::read(&snapshot, rebalance));
    }
    let stop = StopMode::Graceful { timeout_s: DEFAULT_STOP_TIMEOUT_S };
    let command = || Ok(Command::MoveVms(MoveVms { moves: moves.clone(), stop }));
    let accepted = perform(&app.raft, &intent, Basis::Local, |_| command()).await?;
    let Outcome::Placed { refused } = &accepted.done.outcome else {
        return Err(Failure::unexpected(&accepted));
    };
    rebalance.applied = true;
    rebalance.revision = accepted.done.revision.0;
    rebalance.refused = refused
        .iter()
        .map(|(vm, reason)| RefusedMove {
            vm: convert::vm_name(&accepted.published.state, *vm),
            detail: reason.to_string(),
        })
        .collect();
    Ok(Answer::accepted(StatusCode::ACCEPTED, &accepted, rebalance))
}

fn bounds(max_moves: Option<u32>, min_gain: Option<f64>) -> Result<Bounds> {
    let usual = Bounds::default();
    let max_moves = max_moves.unwrap_or(usual.max_moves as u32);
    if max_moves == 0 || max_moves > MOVES_MAX {
        return Err(Failure::invalid("max_moves", format!("is {max_moves}, must be 1 to {MOVES_MAX}")));
    }
    let min_gain = min_gain.unwrap_or(usual.min_gain as f64 / 1e4);
    if !(0.01..=100.0).contains(&min_gain) {
        return Err(Failure::invalid(
            "min_gain",
            format!("is {min_gain}, must be 0.01 to 100 percentage points"),
        ));
    }
    Ok(Bounds { max_moves: max_moves as usize, min_gain: (min_gain * 1e4).round() as u64 })
}

fn planned(state: &Model, bounds: Bounds) -> Plan {
    holm_sched::rebalance(state, &Policy::of(&state.scheduler), bounds)
}

fn relocations(state: &Model, plan: &Plan) -> Vec<Relocation> {
    let one = |moved: &holm_sched::rebalance::Move| {
        let epoch = state.vms.get(&moved.vm)?.claim.as_ref()?.epoch;
        Some(Relocation { vm: moved.vm, epoch, to: moved.to })
    };
    plan.moves.iter().filter_map(one).collect()
}

fn shown(state: &Model, plan: &Plan) -> Rebalance {
    let percent = |millionths: i64| millionths as f64 / 1e4;
    let moves = plan.moves.iter().map(|moved| PlannedMove {
        vm: convert::vm_name(state, moved.vm),
        vm_id: moved.vm.0,
        from: convert::node_name(state, moved.from),
        to: convert::node_name(state, moved.to),
        gain: moved.gain as f64 / 1e4,
    });
    let mut staying: BTreeMap<&str, Staying> = BTreeMap::new();
    for fixed in &plan.fixed {
        let of = staying.entry(&fixed.why).or_insert_with(|| Staying {
            why: fixed.why.clone(),
            count: 0,
            vms: Vec::new(),
        });
        of.count += 1;
        if of.vms.len() < NAMES_MAX {
            of.vms.push(convert::vm_name(state, fixed.vm));
        }
    }
    Rebalance {
        imbalance: percent(plan.before),
        imbalance_after: percent(plan.after),
        moves: moves.collect(),
        staying: staying.into_values().collect(),
        applied: false,
        refused: Vec::new(),
        revision: state.revision.0,
    }
}
