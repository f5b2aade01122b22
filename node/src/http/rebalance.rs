//! `/v1/rebalance`: a plan of moves for a better balance, and its beginning. The scheduler plans, apply checks each
//! move again; what leaves its node is placed on the one it was moved to, if it still fits there.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::http::StatusCode;
use holm_api::{PlannedMove, Rebalance, RebalanceQuery, RefusedMove, StartRebalance, Staying};
use holm_model::command::{MoveVms, Relocation};
use holm_model::reply::Outcome;
use holm_model::vm::{DEFAULT_STOP_TIMEOUT_S, StopMode};
use holm_model::{Command, NodeId, Reason, State as Model, VmId};
use holm_sched::Policy;
use holm_sched::rebalance::{Bounds, Move, Plan, under_way};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::convert;
use super::extract::{Change, Query};
use super::n_plus_one::{TRIES, think};
use super::openapi::WriteHeaders;
use super::problem::{Failure, Result};
use super::read::Snapshot;
use super::write::{Accepted, Basis, attempt};
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

/// Begin the moves of a plan made now: a few at a time, each only if its node has room for it now; the rest by the next
/// call. Each VM is stopped and started on its new node.
#[utoipa::path(post, path = "/v1/rebalance", tag = "rebalance", params(WriteHeaders),
    request_body = StartRebalance,
    responses((status = 202, body = Rebalance), (status = 200, description = "Nothing to begin", body = Rebalance)))]
async fn start(
    State(app): State<Shared>,
    Change { body, intent }: Change<StartRebalance>,
) -> Result<Answer<Rebalance>> {
    intent.refuse_if_match()?;
    let bounds = bounds(body.max_moves, body.min_gain)?;
    let mut tries = TRIES;
    loop {
        let snapshot = Snapshot::take(&app.raft, holm_api::Consistency::Linearizable).await?;
        if let Some(done) = intent.answered(snapshot.state())? {
            return begun(Accepted { done, duplicate: true, published: snapshot.published() }, bounds).await;
        }
        let published = snapshot.published();
        let (command, shown) = think(move || {
            let plan = planned(&published.state, bounds);
            (command(&published.state, &plan), shown(&published.state, &plan))
        })
        .await?;
        let Some(command) = command else {
            let applied = !shown.moves.is_empty();
            return Ok(Answer::read(&snapshot, Rebalance { applied, moves: Vec::new(), ..shown }));
        };
        tries -= 1;
        match attempt(&app.raft, &intent, Basis::Local, |_| Ok(command.clone())).await? {
            Ok(accepted) => return begun(accepted, bounds).await,
            // Others took room meanwhile: planned anew.
            Err(Reason::Unadmitted { .. }) if tries > 0 => {}
            Err(reason) => return Err(reason.into()),
        }
    }
}

/// What was begun, at this call or, by the same key, at an earlier one.
async fn begun(accepted: Accepted, bounds: Bounds) -> Result<Answer<Rebalance>> {
    let (begun, of, refused) = match accepted.done.outcome.clone() {
        Outcome::Moved { begun, planned, refused } => (begun, planned, refused),
        // The answer of an older version, which kept no more.
        Outcome::Placed { refused } => (Vec::new(), 0, refused),
        _ => return Err(Failure::unexpected(&accepted)),
    };
    let published = accepted.published.clone();
    let now = think(move || {
        let state = &published.state;
        let moves = begun.iter().map(|moved| shown_move(state, moved.vm, moved.from, moved.to, moved.gain));
        let refused = refused
            .iter()
            .map(|(vm, reason)| RefusedMove { vm: convert::vm_name(state, *vm), detail: reason.to_string() });
        let now = shown(state, &planned(state, bounds));
        // Of these, too, some may still be under way; the balance counts them where they go.
        let these: BTreeSet<VmId> = begun.iter().map(|moved| moved.vm).collect();
        let under_way = under_way(state).filter(|(vm, _)| !these.contains(&vm.id)).count() as u64;
        let (moves, refused) = (moves.collect(), refused.collect());
        Rebalance { moves, planned: of.into(), under_way, applied: true, refused, ..now }
    });
    let rebalance = Rebalance { revision: accepted.done.revision.0, ..now.await? };
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

/// Begins what may begin now; none if nothing may.
fn command(state: &Model, plan: &Plan) -> Option<Command> {
    let due = holm_sched::rebalance::due(state, &Policy::of(&state.scheduler), plan);
    let one = |moved: &Move| {
        let epoch = state.vms.get(&moved.vm)?.claim.as_ref()?.epoch;
        Some(Relocation { vm: moved.vm, epoch, to: moved.to, gain: moved.gain })
    };
    let moves: Vec<Relocation> = due.into_iter().filter_map(one).collect();
    let stop = StopMode::Graceful { timeout_s: DEFAULT_STOP_TIMEOUT_S };
    let planned = u32::try_from(plan.moves.len()).ok();
    (!moves.is_empty()).then_some(Command::MoveVms(MoveVms {
        moves,
        stop,
        planned,
        admitted: Some(state.revision),
    }))
}

fn shown_move(state: &Model, vm: VmId, from: NodeId, to: NodeId, gain: u64) -> PlannedMove {
    PlannedMove {
        vm: convert::vm_name(state, vm),
        vm_id: vm.0,
        from: convert::node_name(state, from),
        to: convert::node_name(state, to),
        gain: gain as f64 / 1e4,
    }
}

fn shown(state: &Model, plan: &Plan) -> Rebalance {
    let percent = |millionths: i64| millionths as f64 / 1e4;
    let moves = plan.moves.iter().map(|of| shown_move(state, of.vm, of.from, of.to, of.gain));
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
        planned: plan.moves.len() as u64,
        under_way: under_way(state).count() as u64,
        staying: staying.into_values().collect(),
        applied: false,
        refused: Vec::new(),
        revision: state.revision.0,
    }
}
