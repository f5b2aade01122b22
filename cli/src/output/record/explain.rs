//! Why a VM is where it is, as people see it: a sentence, then every host with its verdict.

use holm_api::{Eviction, Explanation, HostVerdict, Verdict};

use super::vm::decision;
use super::{Record, field, optional};
use crate::output::table::{self, Table};
use crate::output::text::Now;

impl Record for Explanation {
    const COLUMNS: &'static [&'static str] = &["VM", "STATUS", "NODE", "SUMMARY"];

    fn name(&self) -> String {
        self.vm.clone()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        let node = self.node.clone().unwrap_or_default();
        vec![self.vm.clone(), status(self), node, self.summary.clone()]
    }

    fn detail(&self, now: Now) -> String {
        let fields = table::fields(&[
            field("VM", &self.vm),
            field("Status", status(self)),
            optional("Node", self.node.as_ref()),
            field("Summary", &self.summary),
            optional("Would evict", self.eviction.as_ref().map(eviction)),
            optional("Last decision", self.decision.as_ref().map(|made| decision(made, now))),
        ]);
        let scores: Vec<_> = self.hosts.iter().filter_map(|host| host.score).collect();
        let equal = scores.len() > 1 && scores.iter().all(|score| score.total_cmp(&scores[0]).is_eq());
        let mut hosts = Table::new(&["NODE", "VERDICT", "SCORE", "WHY"]);
        for host in &self.hosts {
            let score = host.score.map(|score| format!("{score:.3}")).unwrap_or_default();
            let why =
                if equal && host.score.is_some() { "all that fit weigh the same".into() } else { why(host) };
            hosts.row(vec![host.node.clone(), verdict(host.verdict).into(), score, why]);
        }
        let mut text = format!("{fields}\n{}", hosts.render());
        if !self.placements.is_empty() {
            let mut planned = Table::new(&["VM", "WOULD GO TO"]);
            for one in &self.placements {
                planned.row(vec![one.vm.clone(), one.node.clone().unwrap_or_else(|| "nowhere".into())]);
            }
            text += &format!("\n{}", planned.render());
        }
        text
    }
}

/// `web, batch from n1`.
fn eviction(eviction: &Eviction) -> String {
    format!("{} from {}", eviction.victims.join(", "), eviction.node)
}

fn status(explanation: &Explanation) -> String {
    match explanation.task_state {
        Some(step) => format!("{} ({step})", explanation.status),
        None => explanation.status.to_string(),
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds it",
        Verdict::Fits => "fits",
        Verdict::Refuses => "refuses",
    }
}

/// The refusal, or how the score came about.
fn why(host: &HostVerdict) -> String {
    let refusal = [host.by.as_deref(), host.message.as_deref()];
    let refusal: Vec<_> = refusal.into_iter().flatten().collect();
    if !refusal.is_empty() {
        return refusal.join(": ");
    }
    let counts = host.weights.iter().filter(|weight| weight.score != 0.0);
    let weights: Vec<_> = counts.map(|weight| format!("{} {:.3}", weight.weigher, weight.score)).collect();
    weights.join(", ")
}
