//! Why a VM is where it is, or is nowhere: per host the filter that refuses with its words, or the score
//! by weigher. Computed from the state as it is, with the same filters and weighers as the decision; the
//! VM's own claim counts as free, so a placed VM is explained too. A VM that does not exist yet is explained
//! by creating it in a copy of the state.

use holm_model::command::{Command, CreateVm};
use holm_model::feasible::Refusal;
use holm_model::reply::Reason;
use holm_model::vm::Vm;
use holm_model::{Actor, Entry, NodeId, Proposal, Reply, State, Timestamp, VmId, apply};
use serde::{Deserialize, Serialize};

use crate::advice::{Advice, Gathered};
use crate::column::Column;
use crate::host::Host;
use crate::policy::Policy;
use crate::preempt::Eviction;
use crate::request::{Placed, Request};
use crate::select::Batch;
use crate::shape::draw;
use crate::weigher::{Range, weighted};

/// Every host's answer for one VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    pub vm: VmId,
    /// Where it is placed, if it is.
    pub placed_on: Option<NodeId>,
    /// The host that a decision made now would choose.
    pub best: Option<NodeId>,
    /// Whom a decision made now would evict for it, if it fits nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<Eviction>,
    /// By node id.
    pub hosts: Vec<HostVerdict>,
    /// What to do next about those that refuse.
    #[serde(default)]
    pub advice: Vec<Advice>,
}

impl Explanation {
    /// The hosts that are as good as the best, by id: the VM's id draws one of them. A VM that is explained before it
    /// exists gets another id when it is created, so all that can be said of it is that it will be one of these.
    pub fn equal_best(&self) -> Vec<NodeId> {
        let score = |host: &HostVerdict| match host.verdict {
            Verdict::Fits { score_millionths, .. } => Some(score_millionths),
            Verdict::Refused { .. } => None,
        };
        let best = self.hosts.iter().find(|host| Some(host.node) == self.best).and_then(score);
        let greatest = self.hosts.iter().filter_map(score).max();
        match best {
            // It takes the host it was moved to before better ones.
            Some(_) if best < greatest => self.best.into_iter().collect(),
            Some(_) => self.hosts.iter().filter(|host| score(host) == best).map(|host| host.node).collect(),
            None => Vec::new(),
        }
    }
}

/// One host's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostVerdict {
    pub node: NodeId,
    pub name: String,
    pub verdict: Verdict,
}

/// Yes with a score, or no with a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Refused {
        by: String,
        message: String,
        /// Those that would refuse it next, in the order they are asked: who mends the first must not meet them only then.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<Further>,
    },
    Fits {
        /// Sum of the weighted weights, in millionths.
        score_millionths: i64,
        weights: Vec<Weight>,
    },
}

/// A filter that refuses a host which another one refuses before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Further {
    pub by: String,
    pub message: String,
}

/// One weigher's part in a score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weight {
    pub weigher: String,
    /// As the weigher counts: MiB, vCPUs …
    pub raw: i64,
    /// Between 0 and 1 over the hosts that fit, in millionths.
    pub normalised_millionths: i64,
    /// Negative where the weight counts against the host.
    pub multiplier_thousandths: i64,
}

/// Explains `vm` over all hosts of `state`, by `policy` (the one in force is
/// `Policy::of(&state.scheduler)`).
pub fn explain(state: &State, policy: &Policy, vm: &Vm) -> Explanation {
    let request = Request::new(state, &Placed::new(), vm);
    let mut hosts = Host::all(state);
    hosts.iter_mut().for_each(|host| {
        host.without(vm);
        if vm.claim.is_none() {
            host.keep();
        }
    });
    let columns: Vec<Column<'_>> = Column::all(policy, state, &hosts)
        .into_iter()
        .filter(|column| column.weigher.applies(&request))
        .collect();
    let mut ranges = vec![Range::EMPTY; columns.len()];
    let mut advice = Gathered::default();
    let answers: Vec<_> = hosts
        .iter()
        .map(|host| {
            let mut refusals = policy.refusals(&request, host).into_iter();
            if let Some(first) = refusals.next() {
                advice.add(policy, &request, host);
                return Err(refused(first, refusals));
            }
            let raw: Vec<i64> = columns.iter().map(|column| column.weigher.weigh(&request, host)).collect();
            ranges.iter_mut().zip(&raw).for_each(|(range, raw)| range.include(*raw));
            Ok(raw)
        })
        .collect();
    let verdicts = answers.into_iter().enumerate().map(|(at, answer)| match answer {
        Err(refused) => refused,
        Ok(raw) => score(at, &columns, &ranges, &raw),
    });
    let hosts: Vec<HostVerdict> = hosts
        .iter()
        .zip(verdicts)
        .map(|(host, verdict)| HostVerdict { node: host.id(), name: host.node.name.clone(), verdict })
        .collect();
    let best = best(&hosts, vm);
    let seeks = vm.claim.is_none() && best.is_none();
    let eviction = seeks.then(|| Batch::new(state, policy).eviction(&[vm])).flatten();
    let placed_on = vm.claim.as_ref().map(|claim| claim.node);
    let (eviction, advice) = (eviction.map(|(_, eviction)| eviction), advice.told(state));
    Explanation { vm: vm.id, placed_on, best, eviction, hosts, advice }
}

/// Explains a VM that does not exist: it is created in a copy of `state`, so a dry run is refused exactly
/// when the creation would be, quota included. Where it would go is [`Explanation::equal_best`].
///
/// # Errors
/// The refusal of the creation.
pub fn explain_request(
    state: &State,
    at: Timestamp,
    actor: &Actor,
    request: &CreateVm,
) -> Result<Explanation, Reason> {
    let mut after = state.clone();
    let command = Command::CreateVm(request.clone());
    let proposal = Proposal { key: None, seen: state.revision, actor: actor.clone(), command };
    match apply(&mut after, &Entry::new(at, proposal)).reply {
        Reply::Rejected(reason) => Err(reason),
        Reply::Done(_) | Reply::Duplicate(_) => {
            let vm = after.vms.get(&request.id).expect("apply has just created it");
            Ok(explain(&after, &Policy::of(&after.scheduler), vm))
        }
    }
}

fn best(hosts: &[HostVerdict], vm: &Vm) -> Option<NodeId> {
    let candidate = |host: &HostVerdict| match host.verdict {
        Verdict::Fits { score_millionths, .. } => {
            let preferred = vm.recovery.move_to == Some(host.node);
            Some((preferred, score_millionths, draw(vm.id, host.node), host.node))
        }
        Verdict::Refused { .. } => None,
    };
    hosts.iter().filter_map(candidate).max().map(|(.., node)| node)
}

/// By this filter, and further ones.
fn refused<'f>(first: (&str, Refusal), further: impl Iterator<Item = (&'f str, Refusal)>) -> Verdict {
    let (by, message) = first;
    let also = further.map(|(by, message)| Further { by: by.to_owned(), message }).collect();
    Verdict::Refused { by: by.to_owned(), message, also }
}

fn score(host: usize, columns: &[Column<'_>], ranges: &[Range], raw: &[i64]) -> Verdict {
    let weight = |((column, range), raw): ((&Column<'_>, &Range), &i64)| Weight {
        weigher: column.weigher.name().to_owned(),
        raw: *raw,
        normalised_millionths: range.from(column.weigher.floor()).scale().normalise(*raw),
        multiplier_thousandths: column.multiplier(host),
    };
    let weights: Vec<Weight> = columns.iter().zip(ranges).zip(raw).map(weight).collect();
    let score_millionths = weights
        .iter()
        .map(|weight| weighted(weight.multiplier_thousandths, weight.normalised_millionths))
        .fold(0i64, i64::saturating_add);
    Verdict::Fits { score_millionths, weights }
}
