//! Why a VM is where it is, as people see it: a sentence, then every host with its verdict, and what would help where it
//! is refused. Of many hosts, the best are shown one by one and those that refuse by filter; [`InFull`] shows each.

use std::collections::BTreeMap;

use holm_api::{Eviction, Explanation, HostVerdict, Replay, Verdict};
use serde::Serialize;

use super::vm::{decision, what_helps};
use super::{Record, field, indented, optional};
use crate::output::table::{self, Table};
use crate::output::text::{self, Now};

/// More hosts than these are not shown one by one.
const EACH_MAX: usize = 24;
/// Of so many, those that fit best.
const BEST_MAX: usize = 10;
/// Names told of those that refuse.
const NAMED_MAX: usize = 4;

/// An explanation with each host, however many there are.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct InFull<'a>(pub &'a Explanation);

impl Record for InFull<'_> {
    const COLUMNS: &'static [&'static str] = Explanation::COLUMNS;

    fn name(&self) -> String {
        self.0.name()
    }

    fn row(&self, now: Now) -> Vec<String> {
        self.0.row(now)
    }

    fn detail(&self, now: Now) -> String {
        detail(self.0, now, &each(&self.0.hosts))
    }
}

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
        let hosts = if self.hosts.len() > EACH_MAX { grouped(self) } else { each(&self.hosts) };
        detail(self, now, &hosts)
    }
}

impl Record for Replay {
    const COLUMNS: &'static [&'static str] = &["VM", "REVISION", "REPLAY"];

    fn name(&self) -> String {
        self.vm.clone()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        vec![self.vm.clone(), self.decision.seen.to_string(), same(self).into()]
    }

    fn detail(&self, now: Now) -> String {
        table::fields(&[
            field("VM", &self.vm),
            field("Decision", decision(&self.decision, now)),
            field("Made again", same(self)),
            field("Differences", self.differences.join("\n")),
        ])
    }
}

fn same(replay: &Replay) -> &'static str {
    if replay.same { "the same, bit for bit" } else { "another" }
}

fn detail(explained: &Explanation, now: Now, hosts: &str) -> String {
    let fields = table::fields(&[
        field("VM", &explained.vm),
        field("Status", status(explained)),
        optional("Node", explained.node.as_ref()),
        field("Summary", &explained.summary),
        field("Warnings", explained.warnings.join("\n")),
        optional("Would evict", explained.eviction.as_ref().map(eviction)),
        optional("Last decision", explained.decision.as_ref().map(|made| decision(made, now))),
    ]);
    let mut text = format!("{fields}\n{hosts}");
    if !explained.advice.is_empty() {
        text += &format!("\nWhat helps where it is refused:\n{}", indented(&what_helps(&explained.advice)));
    }
    if !explained.placements.is_empty() {
        text += &format!("\n{}", planned(explained));
    }
    text
}

/// A host a line.
fn each(hosts: &[HostVerdict]) -> String {
    let scores: Vec<_> = hosts.iter().filter_map(|host| host.score).collect();
    let equal = scores.len() > 1 && scores.iter().all(|score| score.total_cmp(&scores[0]).is_eq());
    let mut table = Table::new(&["NODE", "VERDICT", "SCORE", "WHY"]);
    for host in hosts {
        let score = host.score.map(|score| format!("{score:.3}")).unwrap_or_default();
        let why =
            if equal && host.score.is_some() { "all that fit weigh the same".into() } else { why(host) };
        table.row(vec![host.node.clone(), verdict(host.verdict).into(), score, why]);
    }
    table.render()
}

/// The best of those that fit, and those that refuse, a filter a line.
fn grouped(explained: &Explanation) -> String {
    let (refuse, fit): (Vec<_>, Vec<_>) =
        explained.hosts.iter().cloned().partition(|host| host.verdict == Verdict::Refuses);
    let mut text = String::new();
    if !fit.is_empty() {
        text += &each(&fit[..fit.len().min(BEST_MAX)]);
    }
    if let Some(more) = fit.len().checked_sub(BEST_MAX).filter(|more| *more > 0) {
        text += &format!("and {} more that fit\n", text::count(more, "node"));
    }
    let mut filters: BTreeMap<&str, Vec<&HostVerdict>> = BTreeMap::new();
    for host in &refuse {
        filters.entry(host.by.as_deref().unwrap_or_default()).or_default().push(host);
    }
    let mut filters: Vec<_> = filters.into_iter().collect();
    filters.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
    let mut table = Table::new(&["REFUSED BY", "NODES", "WHICH", "WHY, OF THE FIRST"]);
    for (by, hosts) in filters {
        let names: Vec<_> = hosts.iter().take(NAMED_MAX).map(|host| host.node.as_str()).collect();
        let more = if hosts.len() > NAMED_MAX { " …" } else { "" };
        let why = hosts[0].message.clone().unwrap_or_default();
        table.row(vec![by.into(), hosts.len().to_string(), format!("{}{more}", names.join(", ")), why]);
    }
    if !refuse.is_empty() {
        text += &format!("{}{}", if text.is_empty() { "" } else { "\n" }, table.render());
    }
    let each = if explained.dry_run { "-o json" } else { "--all" };
    text + &format!("\nEach node by itself: {each}\n")
}

/// Where each VM of a batch would go, or why nowhere.
fn planned(explanation: &Explanation) -> String {
    let mut planned = Table::new(&["VM", "WOULD GO TO", "WHY NOT"]);
    for one in &explanation.placements {
        let node = one.node.clone().unwrap_or_else(|| "nowhere".into());
        planned.row(vec![one.vm.clone(), node, one.why.clone().unwrap_or_default()]);
    }
    for refused in &explanation.refused {
        planned.row(vec![refused.name.clone(), "not created".into(), refused.detail.clone()]);
    }
    planned.render()
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

/// The refusal with the names of those that would come next, or how the score came about.
fn why(host: &HostVerdict) -> String {
    let refusal = [host.by.as_deref(), host.message.as_deref()];
    let refusal: Vec<_> = refusal.into_iter().flatten().collect();
    if !refusal.is_empty() {
        let also: Vec<_> = host.also.iter().map(|further| further.by.as_str()).collect();
        let also = if also.is_empty() { String::new() } else { format!("; also {}", also.join(", ")) };
        return refusal.join(": ") + &also;
    }
    let counts = host.weights.iter().filter(|weight| weight.score != 0.0);
    let weights: Vec<_> = counts.map(|weight| format!("{} {:.3}", weight.weigher, weight.score)).collect();
    weights.join(", ")
}
