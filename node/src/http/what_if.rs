//! `/v1/what-if`: what would become of the VMs of nodes that are lost or drained, by the scheduler's own
//! rules on a copy of the state. Nothing changes.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use holm_api::{Code, Move, Planned, ReadQuery, Stay, WhatIf};
use holm_model::reply::Kind;
use holm_model::{NodeId, State as Model};
use holm_sched::what_if::{self, Voters};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::convert;
use super::extract::Repeated;
use super::n_plus_one::{think, voters};
use super::problem::{Failure, Result};
use super::read::Snapshot;
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(ask))
}

/// Say what would become of the VMs of nodes that are lost or drained.
#[utoipa::path(get, path = "/v1/what-if", tag = "what-if",
    params(ReadQuery,
        ("lose" = Option<Vec<String>>, Query, description = "A node that would be gone; may be repeated"),
        ("drain" = Option<Vec<String>>, Query, description = "A node that would be emptied; may be repeated")),
    responses((status = 200, body = WhatIf)))]
async fn ask(State(app): State<Shared>, question: Question) -> Result<Answer<WhatIf>> {
    let snapshot = Snapshot::take(&app.raft, question.read.consistency).await?;
    let state = snapshot.state();
    let lose = nodes(state, "lose", &question.lose)?;
    let drain = nodes(state, "drain", &question.drain)?;
    if let Some(both) = lose.iter().find(|id| drain.contains(id)) {
        let name = convert::node_name(state, *both);
        return Err(bad("drain", format!("node `{name}` is to be lost too; name it once")));
    }
    let (published, voters) = (snapshot.published(), voters(&app));
    let foreseen = think(move || answer(&published.state, &lose, &drain, &voters)).await?;
    Ok(Answer::read(&snapshot, foreseen))
}

struct Question {
    read: ReadQuery,
    lose: Vec<String>,
    drain: Vec<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Question {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let repeated = Repeated::split(&parts.uri, &["lose", "drain"])?;
        let read = repeated.others()?;
        let (lose, drain): (Vec<_>, Vec<_>) =
            repeated.given.into_iter().partition(|(name, _)| name == "lose");
        let values = |pairs: Vec<(String, String)>| pairs.into_iter().map(|(_, value)| value).collect();
        let question = Self { read, lose: values(lose), drain: values(drain) };
        if question.lose.is_empty() && question.drain.is_empty() {
            return Err(bad("lose", "name at least one node to `lose` or `drain`"));
        }
        Ok(question)
    }
}

fn bad(field: &str, message: impl Into<String>) -> Failure {
    Failure::new(Code::InvalidQuery, message).field(field)
}

/// In the order they were named, each once.
fn nodes(state: &Model, field: &str, names: &[String]) -> Result<Vec<NodeId>> {
    let mut seen = BTreeSet::new();
    let mut ids = Vec::new();
    for name in names {
        let node = state.find_node(name).ok_or_else(|| Failure {
            code: Code::InvalidQuery,
            ..Failure::unknown_reference(field, Kind::Node, name)
        })?;
        if seen.insert(node.id) {
            ids.push(node.id);
        }
    }
    Ok(ids)
}

fn answer(state: &Model, lose: &[NodeId], drain: &[NodeId], voters: &Voters) -> WhatIf {
    let foreseen = holm_sched::what_if(state, lose, drain, voters);
    let vm = |id, from| Move {
        vm: convert::vm_name(state, id),
        vm_id: id.0,
        from: convert::node_name(state, from),
        to: None,
        by_itself: false,
        stays: None,
        refusals: Vec::new(),
        refused: BTreeMap::new(),
    };
    let moved = foreseen.moves.iter().map(|moved| Move {
        to: Some(convert::node_name(state, moved.to)),
        by_itself: moved.by_itself,
        ..vm(moved.vm, moved.from)
    });
    let stuck = foreseen.stuck.iter().map(|stuck| Move {
        by_itself: stuck.by_itself,
        refusals: stuck.refusals.iter().map(|reason| convert::host_reason(state, reason)).collect(),
        refused: stuck.counts.clone(),
        ..vm(stuck.vm, stuck.from)
    });
    let stays =
        foreseen.stays.iter().map(|stays| Move { stays: Some(stay(stays.how)), ..vm(stays.vm, stays.from) });
    let waiting = foreseen.waiting.iter().map(|waiting| Planned {
        vm: convert::vm_name(state, waiting.vm),
        node: waiting.to.map(|node| convert::node_name(state, node)),
        why: None,
    });
    let names = |ids: &[NodeId]| ids.iter().map(|id| convert::node_name(state, *id)).collect();
    WhatIf {
        lose: names(lose),
        drain: names(drain),
        summary: summary(&foreseen),
        hindrances: foreseen.hindrances.clone(),
        vms: moved.chain(stuck).chain(stays).collect(),
        waiting: waiting.collect(),
        advice: convert::advice(state, &foreseen.advice),
        fits: foreseen.moves.len() as u64,
        stranded: foreseen.stuck.len() as u64,
        revision: state.revision.0,
    }
}

fn stay(how: what_if::Stay) -> Stay {
    match how {
        what_if::Stay::Off => Stay::Off,
        what_if::Stay::StopsOrKept => Stay::StopsOrKept,
        what_if::Stay::Stops => Stay::Stops,
        what_if::Stay::Kept => Stay::Kept,
        what_if::Stay::Leaving => Stay::Leaving,
    }
}

fn summary(foreseen: &what_if::WhatIf) -> String {
    let (fits, stranded, stays) = (foreseen.moves.len(), foreseen.stuck.len(), foreseen.stays.len());
    let room = match (fits, stranded) {
        (0, 0) if stays > 0 => "no VM is moved".to_owned(),
        (0, 0) => "no VM is there".to_owned(),
        (fits, 0) => format!("all {fits} VMs would fit elsewhere"),
        (fits, stranded) => format!("{stranded} of {} VMs would fit nowhere", fits + stranded),
    };
    let stay = (stays > 0).then(|| format!("{stays} stay with their node"));
    let parts = foreseen.hindrances.iter().cloned().chain([room]).chain(stay);
    parts.collect::<Vec<_>>().join("; ")
}
