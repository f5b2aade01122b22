//! What would become of a request, without making it: the command is applied to a copy of the state, so
//! that every refusal is the one the request would get, and the scheduler is asked about what that gave.

use holm_api::{Eviction, Explanation, Planned};
use holm_model::vm::Vm;
use holm_model::{Actor, Command, Entry, Proposal, Reply, State, VmId, apply};
use holm_sched::{Batch, Policy};

use super::explain::{explanation, none_fits};
use super::problem::{Failure, Result};
use super::{convert, n_plus_one};
use crate::clock;

/// The first VM on every node, and with several, where each would go.
///
/// # Errors
/// What the request would be refused with.
pub fn explain(state: &State, actor: Actor, command: Command, ids: &[VmId]) -> Result<Explanation> {
    let batch = matches!(command, Command::CreateVms(_));
    let command = n_plus_one::admitted_at(command, state.revision);
    n_plus_one::refuse(state, &actor, &command)?;
    let imagined = imagine(state, actor, command)?;
    let vms: Vec<&Vm> = ids.iter().filter_map(|id| imagined.vms.get(id)).collect();
    let Some(first) = vms.first() else {
        return Err(Failure::new(holm_api::Code::Internal, "the request would create nothing"));
    };
    let mut explanation = explanation(&imagined, first);
    explanation.dry_run = true;
    explanation.summary = summary(&explanation);
    if batch {
        explanation.placements = placements(&imagined, &vms);
        let placed = explanation.placements.iter().filter(|planned| planned.node.is_some()).count();
        explanation.summary =
            format!("{placed} of {} VMs would be placed now; ids draw among equally good nodes", vms.len());
    }
    Ok(explanation)
}

/// The state with the command applied.
///
/// # Errors
/// What the command would be refused with.
pub fn imagine(state: &State, actor: Actor, command: Command) -> Result<State> {
    let mut imagined = state.clone();
    let proposal = Proposal { key: None, seen: state.revision, actor, command };
    match apply(&mut imagined, &Entry { at: clock::now(), proposal }).reply {
        Reply::Rejected(reason) => Err(reason.into()),
        Reply::Done(_) | Reply::Duplicate(_) => Ok(imagined),
    }
}

fn summary(explanation: &Explanation) -> String {
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
            None => format!("{}: it would wait; nothing was created", none_fits(hosts)),
        },
    }
}

fn placements<'a>(state: &'a State, vms: &[&'a Vm]) -> Vec<Planned> {
    let policy = Policy::of(&state.scheduler);
    let mut batch = Batch::new(state, &policy);
    let mut planned = Vec::with_capacity(vms.len());
    for vm in vms {
        let node = batch.place(vm).map(|chosen| convert::node_name(state, chosen.node));
        planned.push(Planned { vm: vm.name.clone(), node });
    }
    planned
}
