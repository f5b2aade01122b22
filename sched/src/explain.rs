//! Why a VM is where it is, or is nowhere: per host the filter that refuses with its words, or the score
//! by weigher. Computed from the state as it is, with the same filters and weighers as the decision; the
//! VM's own claim counts as free, so a placed VM is explained too.

use std::borrow::Cow;

use holm_model::node::Node;
use holm_model::vm::Vm;
use holm_model::{NodeId, State, VmId};
use serde::{Deserialize, Serialize};

use crate::filter::{Host, Request};
use crate::policy::Policy;
use crate::select::draw;
use crate::weigher::{Range, weighted};

/// Every host's answer for one VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    pub vm: VmId,
    /// Where it is placed, if it is.
    pub placed_on: Option<NodeId>,
    /// The host that a decision made now would choose.
    pub best: Option<NodeId>,
    /// By node id.
    pub hosts: Vec<HostVerdict>,
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
    },
    Fits {
        /// Sum of the weighted weights, in millionths.
        score_millionths: i64,
        weights: Vec<Weight>,
    },
}

/// One weigher's part in a score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weight {
    pub weigher: String,
    /// As the weigher counts: MiB, vCPUs …
    pub raw: i64,
    /// Between 0 and 1 over the hosts that fit, in millionths.
    pub normalised_millionths: i64,
    pub multiplier_thousandths: i64,
}

/// Explains `vm` over all hosts of `state`.
pub fn explain(state: &State, policy: &Policy, vm: &Vm) -> Explanation {
    let request = Request::new(vm);
    let hosts: Vec<Host<'_>> = state.nodes.values().map(|node| without_own_claim(node, vm)).collect();
    let mut ranges = vec![Range::EMPTY; policy.weighers.len()];
    let answers: Vec<_> = hosts
        .iter()
        .map(|host| {
            policy.check(&request, host)?;
            let raw: Vec<i64> = policy.weighers.iter().map(|weigher| weigher.weigh(&request, host)).collect();
            ranges.iter_mut().zip(&raw).for_each(|(range, raw)| range.include(*raw));
            Ok(raw)
        })
        .collect();
    let verdicts = answers.into_iter().map(|answer| match answer {
        Err((by, message)) => Verdict::Refused { by: by.to_owned(), message },
        Ok(raw) => score(policy, &ranges, &raw),
    });
    let hosts: Vec<HostVerdict> = hosts
        .iter()
        .zip(verdicts)
        .map(|(host, verdict)| HostVerdict { node: host.id(), name: host.node.name.clone(), verdict })
        .collect();
    let best = hosts
        .iter()
        .filter_map(|host| match host.verdict {
            Verdict::Fits { score_millionths, .. } => {
                Some((score_millionths, draw(vm.id, host.node), host.node))
            }
            Verdict::Refused { .. } => None,
        })
        .max()
        .map(|(.., node)| node);
    Explanation { vm: vm.id, placed_on: vm.claim.as_ref().map(|claim| claim.node), best, hosts }
}

fn without_own_claim<'a>(node: &'a Node, vm: &Vm) -> Host<'a> {
    let mut host = Host::new(node);
    if let Some(claim) = vm.claim.as_ref().filter(|claim| claim.node == node.id) {
        let mut others = node.allocated.clone();
        others.sub(&claim.resources);
        host.claimed = Cow::Owned(others);
    }
    host
}

fn score(policy: &Policy, ranges: &[Range], raw: &[i64]) -> Verdict {
    let weights: Vec<Weight> = policy
        .weighers
        .iter()
        .zip(ranges)
        .zip(raw)
        .map(|((weigher, range), raw)| Weight {
            weigher: weigher.name().to_owned(),
            raw: *raw,
            normalised_millionths: range.normalise(*raw),
            multiplier_thousandths: weigher.multiplier_thousandths(),
        })
        .collect();
    let score_millionths = weights
        .iter()
        .map(|weight| weighted(weight.multiplier_thousandths, weight.normalised_millionths))
        .fold(0i64, i64::saturating_add);
    Verdict::Fits { score_millionths, weights }
}
