//! `/v1/n-plus-one`: whether the cluster could lose any one node and still hold its failover VMs; and the
//! admission by it of new ones, and under a policy that refuses of all else that takes room.

use std::sync::Arc;

use axum::extract::State;
use holm_api::{Code, NPlusOneVerdict, NodeLoss, ReadQuery};
use holm_model::policy::NPlusOne;
use holm_model::{Actor, Command, Reason, Revision, State as Model};
use holm_raft::handle::Published;
use holm_sched::admission::{admitted_at, brings_failover, is_judged, objections};
use holm_sched::admitted_part::part_of;
use holm_sched::n_plus_one::Loss;
use holm_sched::what_if::{Voters, hindrances_of_any_loss};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::convert;
use super::extract::Query;
use super::problem::{Failure, Result};
use super::read::{READ_TIMEOUT, Snapshot};
use super::write::{Accepted, Basis, Intent, attempt};
use crate::app::{App, Shared};
use crate::clock;

/// How often a judgement is made anew because others took room meanwhile.
pub const TRIES: u32 = 16;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Say whether the cluster could lose any one node and still hold its failover VMs.
#[utoipa::path(get, path = "/v1/n-plus-one", tag = "what-if", params(ReadQuery),
    responses((status = 200, body = NPlusOneVerdict)))]
async fn show(State(app): State<Shared>, Query(query): Query<ReadQuery>) -> Result<Answer<NPlusOneVerdict>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let published = snapshot.published();
    let voters = voters(&app);
    let verdict = think(move || verdict(&published.state, &voters)).await?;
    Ok(Answer::read(&snapshot, verdict))
}

/// Those that vote, as this node knows.
pub fn voters(app: &App) -> Voters {
    let voters = app.raft.status().borrow().voters.clone();
    if voters.is_empty() { Voters::All } else { Voters::Known(voters.into_iter().collect()) }
}

fn verdict(state: &Model, voters: &Voters) -> NPlusOneVerdict {
    let verdict = holm_sched::n_plus_one(state);
    let hindrances = hindrances_of_any_loss(state, voters);
    let loss = |loss: &Loss| NodeLoss {
        node: convert::node_name(state, loss.node),
        node_id: loss.node.0,
        vms: loss.vms as u64,
        stuck: loss.stuck.iter().map(|vm| convert::vm_name(state, *vm)).collect(),
        missing: convert::amounts(&loss.missing),
    };
    NPlusOneVerdict {
        policy: convert::n_plus_one(state.scheduler.n_plus_one),
        holds: verdict.holds() && hindrances.is_empty(),
        summary: summary(&verdict, &hindrances),
        vms: verdict.vms as u64,
        waiting: verdict.waiting.iter().map(|vm| convert::vm_name(state, *vm)).collect(),
        losses: verdict.losses.iter().map(loss).collect(),
        sentences: hindrances.into_iter().chain(verdict.sentences(state)).collect(),
        revision: state.revision.0,
    }
}

fn summary(verdict: &holm_sched::NPlusOne, hindrances: &[String]) -> String {
    match (verdict.vms, verdict.holds()) {
        (0, _) => "there are no failover VMs".to_owned(),
        _ if !hindrances.is_empty() => hindrances.join("; "),
        (vms, true) => format!("any one node may go: all {vms} failover VMs would find a host"),
        (_, false) if verdict.losses.is_empty() => {
            "there are failover VMs that fit nowhere even now".to_owned()
        }
        (_, false) => format!("the cluster cannot do without {} of its nodes", verdict.losses.len()),
    }
}

/// Makes a write that may bring failover VMs or take their room, if the policy lets it; with what it warns of. Judged
/// first, on a linearizable read; apply takes the judgement only while nothing else has been admitted since, so of
/// several at once each is judged with those before it.
///
/// # Errors
/// `n_plus_one`, when the policy refuses; or what the write itself is refused with.
pub async fn perform_admitted(
    app: &Shared,
    intent: &Intent,
    basis: Basis,
    build: impl Fn(&Model) -> Result<Command>,
) -> Result<(Accepted, Vec<String>)> {
    let mut turn = None;
    let mut tries = TRIES;
    loop {
        if turn.is_none() && (tries < TRIES || is_refusing(&app.raft.state().state, &build)) {
            // A judgement costs as much as the cluster is large, and only one of those on one state can count. Those of
            // other nodes are few.
            turn = Some(take_turn(app).await?);
        }
        let Judgement { judged, warnings } = judge(app, intent, &build, tries < TRIES).await?;
        let admitted = |state: &Model| match &judged {
            Some(command) => Ok(command.clone()),
            None => Ok(admitted_at(build(state)?, Revision::default())),
        };
        tries -= 1;
        match attempt(&app.raft, intent, basis, admitted).await? {
            Ok(accepted) => return Ok((accepted, warnings)),
            Err(Reason::Unadmitted { .. }) if tries > 0 => {}
            Err(reason) => return Err(reason.into()),
        }
    }
}

/// Whether the write will be judged, as far as this node knows.
fn is_refusing(state: &Model, build: &impl Fn(&Model) -> Result<Command>) -> bool {
    state.scheduler.n_plus_one == NPlusOne::Refuse
        && build(state).is_ok_and(|command| is_judged(state, NPlusOne::Refuse, &command))
}

async fn take_turn(app: &Shared) -> Result<tokio::sync::MutexGuard<'_, ()>> {
    tokio::time::timeout(READ_TIMEOUT, app.admission.lock()).await.map_err(|_| {
        Failure::new(Code::Unavailable, "other VMs are being judged for N+1, and that takes long")
            .hint("nothing was changed: try again")
    })
}

/// What N+1 says to a write.
#[derive(Default)]
struct Judgement {
    /// The command with which it holds, saying when; none if it was not asked, or does not hold.
    judged: Option<Command>,
    warnings: Vec<String>,
}

/// Judges a write that the policy asks about; one that was answered before, or would be refused anyway, is let by.
async fn judge(
    app: &Shared,
    intent: &Intent,
    build: &impl Fn(&Model) -> Result<Command>,
    again: bool,
) -> Result<Judgement> {
    let here = app.raft.state();
    // Who is asked to judge anew has not yet seen the policy that asks.
    let policy = if again { NPlusOne::Refuse } else { here.state.scheduler.n_plus_one };
    let spared = |command: &Command| !is_judged(&here.state, policy, command);
    if build(&here.state).is_ok_and(|command| spared(&command)) {
        return Ok(Judgement::default());
    }
    let snapshot = Snapshot::take(&app.raft, holm_api::Consistency::Linearizable).await?;
    let state = snapshot.state();
    let (Ok(command), Ok(None)) = (build(state), intent.answered(state)) else {
        return Ok(Judgement::default());
    };
    if !is_judged(state, state.scheduler.n_plus_one, &command) {
        return Ok(Judgement::default());
    }
    let command = admitted_at(command, state.revision);
    let (published, actor) = (snapshot.published(), intent.actor());
    think(move || weigh(&published.state, &actor, command)).await?
}

/// What the policy says to a command of [`admitted_at`]; of a batch that need not come whole, to the part it lets in.
///
/// # Errors
/// `n_plus_one`, when the policy refuses.
fn weigh(state: &Model, actor: &Actor, command: Command) -> Result<Judgement> {
    // What apply refuses it says better, and what it takes after all was not judged.
    let Ok(sentences) = objections(state, clock::now(), actor, &command) else {
        return Ok(Judgement::default());
    };
    match state.scheduler.n_plus_one {
        NPlusOne::Off => Ok(Judgement::default()),
        NPlusOne::Refuse if !sentences.is_empty() => {
            let Some(part) = part_of(state, clock::now(), actor, &command, sentences.clone()) else {
                return Err(refusal(&sentences, brings_failover(state, &command)));
            };
            let with_more = part.objections.into_iter().map(|sentence| format!("with one more, {sentence}"));
            Ok(Judgement { judged: Some(part.command), warnings: warned(with_more.collect()) })
        }
        NPlusOne::Warn | NPlusOne::Refuse => {
            let judged = sentences.is_empty().then_some(command);
            Ok(Judgement { judged, warnings: warned(sentences) })
        }
    }
}

/// A command of [`admitted_at`] that is only thought of, as far as the policy lets it in, and what it warns of.
///
/// # Errors
/// `n_plus_one`, as for the write itself.
pub fn judge_imagined(state: &Model, actor: &Actor, command: Command) -> Result<(Command, Vec<String>)> {
    if !is_judged(state, state.scheduler.n_plus_one, &command) {
        return Ok((command, Vec::new()));
    }
    let Judgement { judged, warnings } = weigh(state, actor, command.clone())?;
    Ok((judged.unwrap_or(command), warnings))
}

/// What is said of the VMs of a batch that come after those that the policy lets in.
pub fn refusal_of_rest() -> Failure {
    Failure::new(Code::NPlusOne, "with it, the cluster could no longer lose any one node")
}

fn refusal(sentences: &[String], is_failover: bool) -> Failure {
    let detail = format!("with it, the cluster could no longer lose any one node: {}", sentences.join("; "));
    let failure = Failure::new(Code::NPlusOne, detail);
    let (failure, less) = match is_failover {
        true => (failure.field("availability"), "keep it pinned or off, "),
        false => (failure, ""),
    };
    failure.hint(format!(
        "add a node or make room (`holm cluster what-if --lose NODE` shows what would fit where), {less}or allow it \
         with `holm scheduler set --n-plus-one warn`"
    ))
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
    Ok(warned(sentences))
}

fn warned(sentences: Vec<String>) -> Vec<String> {
    sentences.into_iter().map(|sentence| format!("N+1: {sentence}")).collect()
}

/// Thinking about many VMs takes a while: not on a thread that serves others.
pub async fn think<T: Send + 'static>(thought: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let thought = tokio::task::spawn_blocking(thought).await;
    thought
        .map_err(|error| Failure::new(Code::Internal, format!("the question could not be answered: {error}")))
}
