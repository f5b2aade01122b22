//! What would become of a request, without making it: the command is applied to a copy of the state, so
//! that every refusal is the one the request would get, and the scheduler is asked about what that gave.

use holm_api::{Eviction, Explanation, Planned};
use holm_model::vm::OnNoHost;
use holm_model::{Actor, Command, Entry, NodeId, Outcome, Proposal, Reply, State, VmId, apply};
use holm_sched::select::Reasons;

use super::explain::{explanation, none_fits};
use super::problem::{Failure, Result};
use super::{convert, n_plus_one, vm_create};
use crate::clock;

/// The first VM on every node, and with several, what would become of each: `ids` in the order of `names`.
///
/// # Errors
/// What the request would be refused with.
pub fn explain(
    state: &State,
    actor: Actor,
    command: Command,
    ids: &[VmId],
    names: &[String],
) -> Result<Explanation> {
    let batch = matches!(command, Command::CreateVms(_));
    let command = holm_sched::admission::admitted_at(command, state.revision);
    let (command, warnings) = n_plus_one::judge_imagined(state, &actor, command)?;
    let (imagined, outcome) = imagine(state, actor, command)?;
    if let Outcome::Vms { created, refused } = &outcome
        && created.is_empty()
    {
        return Err(vm_create::none_created(refused, names));
    }
    let vms: Vec<VmId> = ids.iter().copied().filter(|id| imagined.vms.contains_key(id)).collect();
    let Some(first) = vms.first().and_then(|id| imagined.vms.get(id)) else {
        return Err(Failure::new(holm_api::Code::Internal, "the request would create nothing"));
    };
    let mut explanation = explanation(&imagined, first);
    explanation.dry_run = true;
    explanation.warnings.splice(0..0, warnings);
    explanation.summary = summary(&explanation, first.spec.on_no_host);
    if batch {
        let foreseen = holm_sched::foresee(&imagined, &vms);
        explanation.placements =
            foreseen.vms.iter().map(|(vm, outcome)| planned(&imagined, *vm, outcome)).collect();
        if let Outcome::Vms { refused, .. } = &outcome {
            let name = |id: &VmId| ids.iter().position(|other| other == id).and_then(|at| names.get(at));
            explanation.refused = refused.iter().map(|of| vm_create::refused(of, name(&of.0))).collect();
        }
        explanation.eviction =
            foreseen.eviction.as_ref().map(|(_, eviction)| convert::eviction(&imagined, eviction));
        explanation.summary = summary_of_batch(&explanation, first.spec.on_no_host);
    }
    Ok(explanation)
}

/// The state with the command applied, and what is answered to it.
///
/// # Errors
/// What the command would be refused with.
pub fn imagine(state: &State, actor: Actor, command: Command) -> Result<(State, Outcome)> {
    let mut imagined = state.clone();
    let proposal = Proposal { key: None, seen: state.revision, actor, command };
    match apply(&mut imagined, &Entry::new(clock::now(), proposal)).reply {
        Reply::Done(done) => Ok((imagined, done.outcome)),
        Reply::Rejected(reason) => Err(reason.into()),
        Reply::Duplicate(_) => Err(Failure::new(holm_api::Code::Internal, "what has no key was made before")),
    }
}

/// What becomes of a VM that fits nowhere.
fn without_host(on_no_host: OnNoHost) -> &'static str {
    match on_no_host {
        OnNoHost::Queue => "would wait",
        OnNoHost::Fail => "would end in ERROR",
    }
}

fn summary(explanation: &Explanation, on_no_host: OnNoHost) -> String {
    let hosts = &explanation.hosts;
    let fits = hosts.iter().filter(|host| host.verdict == holm_api::Verdict::Fits);
    let (count, best) = (fits.clone().count(), fits.clone().next());
    let all = explanation.hosts.len();
    match best {
        Some(best) => {
            // Its id draws one of them, and the one that is created has another id than the one imagined.
            let equal: Vec<&str> =
                fits.filter(|host| host.score == best.score).map(|host| host.node.as_str()).collect();
            let best = match equal.as_slice() {
                [] | [_] => format!("{} best", best.node),
                equal => format!("one of {} gets it, all equally good", equal.join(", ")),
            };
            format!("{count} of {all} nodes fit, {best}; nothing was created")
        }
        None => match &explanation.eviction {
            Some(Eviction { node, victims }) => {
                let victims = victims.join(", ");
                format!("{}: it would evict {victims} from {node}; nothing was created", none_fits(hosts))
            }
            None => format!("{}: it {}; nothing was created", none_fits(hosts), without_host(on_no_host)),
        },
    }
}

fn planned(state: &State, vm: VmId, outcome: &std::result::Result<NodeId, Reasons>) -> Planned {
    let (node, why) = match outcome {
        Ok(node) => (Some(convert::node_name(state, *node)), None),
        Err(reasons) => (None, Some(reasons.message())),
    };
    Planned { vm: convert::vm_name(state, vm), node, why }
}

fn summary_of_batch(explanation: &Explanation, on_no_host: OnNoHost) -> String {
    let (planned, refused) = (&explanation.placements, &explanation.refused);
    let nowhere: Vec<&Planned> = planned.iter().filter(|planned| planned.node.is_none()).collect();
    let (all, placed) = (planned.len() + refused.len(), planned.len() - nowhere.len());
    let mut parts =
        vec![format!("{placed} of {all} VMs would be placed now; ids draw among equally good nodes")];
    if let Some(first) = nowhere.first() {
        let end = without_host(on_no_host);
        let why = first.why.as_deref().unwrap_or_default();
        parts.push(format!("{} {end}, `{}` since {why}", nowhere.len(), first.vm));
    }
    if let Some(Eviction { node, victims }) = &explanation.eviction {
        parts.push(format!("{} would be evicted from {node}", victims.join(", ")));
    }
    if let Some(first) = refused.first() {
        parts.push(format!(
            "{} would not be created, `{}` since {}",
            refused.len(),
            first.name,
            first.detail
        ));
    }
    parts.push("nothing was created".to_owned());
    parts.join("; ")
}
