//! `/v1/vms/{vm}/explain`: why a VM is where it is, or nowhere. The scheduler's own filters and weighers
//! answer, so the explanation cannot differ from the decision.

use std::collections::BTreeMap;

use axum::extract::State;
use holm_api::{Explanation, HostVerdict, ReadQuery, Refusal, Verdict, Weight};
use holm_model::feasible;
use holm_model::vm::{Vm, VmStatus};
use holm_model::{NodeId, State as Model};
use holm_sched::explain::{Further, Verdict as Answered};
use holm_sched::{Policy, ignored};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::Answer;
use super::convert;
use super::extract::{Named, Query};
use super::n_plus_one::think;
use super::openapi::ProjectHeader;
use super::problem::{Failure, Result};
use super::project::Project;
use super::read::Snapshot;
use super::vms::find;
use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(explain))
}

/// Explain a VM's placement, node by node.
#[utoipa::path(get, path = "/v1/vms/{vm}/explain", tag = "vms",
    params(("vm" = String, Path, description = "Name or id"), ReadQuery, ProjectHeader),
    responses((status = 200, body = Explanation)))]
async fn explain(
    State(app): State<Shared>,
    project: Project,
    Named(name): Named,
    Query(query): Query<ReadQuery>,
) -> Result<Answer<Explanation>> {
    let snapshot = Snapshot::take(&app.raft, query.consistency).await?;
    let published = snapshot.published();
    let explained = think(move || {
        let state = &published.state;
        Ok::<_, Failure>(explanation(state, find(state, &project, &name)?))
    });
    Ok(Answer::read(&snapshot, explained.await??))
}

/// What every node's filters and weighers say of `vm`, best first.
pub fn explanation(state: &Model, vm: &Vm) -> Explanation {
    explanation_by(state, &Policy::of(&state.scheduler), vm)
}

/// The same by another policy than the one in force.
pub fn explanation_by(state: &Model, policy: &Policy, vm: &Vm) -> Explanation {
    let explained = holm_sched::explain(state, policy, vm);
    let mut hosts: Vec<HostVerdict> =
        explained.hosts.iter().map(|host| verdict(vm, host.node, &host.name, &host.verdict)).collect();
    // Where it is, then best first, then those that refuse; ties keep the order of ids.
    hosts.sort_by(|a, b| {
        let rank = |host: &HostVerdict| match host.verdict {
            Verdict::Holds => 0,
            Verdict::Fits => 1,
            Verdict::Refuses => 2,
        };
        let score = |host: &HostVerdict| host.score.unwrap_or(f64::MIN);
        rank(a).cmp(&rank(b)).then_with(|| score(b).total_cmp(&score(a)))
    });
    Explanation {
        vm: vm.name.clone(),
        vm_id: vm.id.0,
        status: convert::vm_status(vm.status),
        task_state: vm.task_state.map(convert::task_state),
        node: vm.claim.as_ref().map(|claim| convert::node_name(state, claim.node)),
        summary: summary(state, vm, explained.best, &hosts),
        hosts,
        decision: vm.decision.as_ref().map(|made| convert::decision(state, made)),
        eviction: explained.eviction.as_ref().map(|eviction| convert::eviction(state, eviction)),
        advice: convert::advice(state, &explained.advice),
        placements: Vec::new(),
        refused: Vec::new(),
        warnings: ignored(state, &vm.spec),
        dry_run: false,
    }
}

fn verdict(vm: &Vm, node: NodeId, name: &str, answered: &Answered) -> HostVerdict {
    let holds = vm.claim.as_ref().is_some_and(|claim| claim.node == node);
    let mut host = HostVerdict {
        node: name.to_owned(),
        node_id: node.0,
        verdict: if holds { Verdict::Holds } else { Verdict::Fits },
        by: None,
        message: None,
        also: Vec::new(),
        score: None,
        weights: Vec::new(),
    };
    match answered {
        Answered::Refused { by, message, also } => {
            host.by = Some(by.clone());
            host.message = Some(message.clone());
            let further = |it: &Further| Refusal { by: it.by.clone(), message: it.message.clone() };
            host.also = also.iter().map(further).collect();
            if !holds {
                host.verdict = Verdict::Refuses;
            }
        }
        Answered::Fits { score_millionths, weights } => {
            host.score = Some(*score_millionths as f64 / 1e6);
            host.weights = weights
                .iter()
                .map(|weight| Weight {
                    weigher: weight.weigher.clone(),
                    raw: weight.raw,
                    normalised: weight.normalised_millionths as f64 / 1e6,
                    multiplier: weight.multiplier_thousandths as f64 / 1e3,
                    // Zero has no sign for people.
                    score: weight.normalised_millionths as f64 / 1e6 * weight.multiplier_thousandths as f64
                        / 1e3
                        + 0.0,
                })
                .collect();
        }
    }
    host
}

fn summary(state: &Model, vm: &Vm, best: Option<NodeId>, hosts: &[HostVerdict]) -> String {
    let fits = hosts.iter().filter(|host| host.verdict == Verdict::Fits).count();
    if let Some(claim) = &vm.claim {
        let name = convert::node_name(state, claim.node);
        return match state.nodes.get(&claim.node) {
            Some(node) if !node.up => format!("placed on {name}, which is down: the VM waits for it"),
            _ if vm.status == VmStatus::Error => {
                let why = vm.fault.as_ref().map_or("no reason was recorded", |fault| fault.message.as_str());
                format!("placed on {name}, in ERROR: {why}; start it to try again there")
            }
            _ => format!("placed on {name} at revision {}", claim.epoch),
        };
    }
    let all = hosts.len();
    if vm.spec.node.is_some_and(|asked| !state.nodes.contains_key(&asked)) {
        return "only a node that was removed is allowed for it: delete it and create it anew".into();
    }
    match (vm.status, best) {
        (VmStatus::Error, _) => {
            let why = vm.fault.as_ref().map_or("no reason was recorded", |fault| fault.message.as_str());
            format!("not placed: {why}; start it to try again ({fits} of {all} nodes fit now)")
        }
        (VmStatus::Shutoff, Some(best)) => {
            let best = convert::node_name(state, best);
            format!("off, and on no node; {fits} of {all} nodes fit now, {best} best")
        }
        (_, Some(_)) if vm.batch.is_some() => {
            let why = vm.fault.as_ref().map_or("nothing was decided yet", |fault| fault.message.as_str());
            format!("waiting with its batch: {why}; tried again whenever something changes")
        }
        (_, Some(best)) => {
            format!("waiting; {fits} of {all} nodes fit now, {} best", convert::node_name(state, best))
        }
        (VmStatus::Shutoff, None) => format!("off, and on no node; {}", none_fits(hosts)),
        (_, None) => {
            let lost = vm.recovery.lost_host.as_ref().map(|why| format!("; it lost its node: {why}"));
            format!("waiting: {}{}; {}", none_fits(hosts), lost.unwrap_or_default(), hope(state, vm))
        }
    }
}

/// How many nodes each filter refuses.
pub fn none_fits(hosts: &[HostVerdict]) -> String {
    let mut counts = BTreeMap::new();
    for by in hosts.iter().filter_map(|host| host.by.clone()) {
        *counts.entry(by).or_default() += 1;
    }
    feasible::no_node_fits(&counts)
}

/// What a VM that fits nowhere waits for.
fn hope(state: &Model, vm: &Vm) -> String {
    let Some(reserved) = &vm.reserved else { return "tried again whenever something changes".to_owned() };
    let node = convert::node_name(state, reserved.node);
    let leaving =
        reserved.evicted.iter().filter(|id| state.vms.get(*id).is_some_and(|vm| vm.claim.is_some()));
    let leaving: Vec<String> = leaving.map(|id| convert::vm_name(state, *id)).collect();
    if leaving.is_empty() {
        format!("{node} is kept for it until there is room")
    } else {
        format!("{node} is kept for it, which these leave: {}", leaving.join(", "))
    }
}
