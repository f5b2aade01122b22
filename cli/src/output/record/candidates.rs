//! Allocation candidates, as people see them: which nodes would take a VM, and why the others would not.

use holm_api::{AllocationCandidates, Candidate};

use super::vm::what_helps;
use super::{Record, amounts, field, indented, optional};
use crate::output::table::{self, Table};
use crate::output::text::{self, Now};

impl Record for AllocationCandidates {
    const COLUMNS: &'static [&'static str] = &["FOR", "CANDIDATES"];

    fn name(&self) -> String {
        self.flavor.clone().unwrap_or_else(|| amounts(&self.requested))
    }

    fn row(&self, _now: Now) -> Vec<String> {
        let nodes: Vec<_> = self.candidates.iter().map(|candidate| candidate.node.as_str()).collect();
        vec![self.name(), nodes.join(", ")]
    }

    fn detail(&self, _now: Now) -> String {
        let fields = table::fields(&[
            optional("Flavor", self.flavor.as_ref()),
            field("A VM asks for", amounts(&self.requested)),
            field("and claims", amounts(&self.claim)),
            field("Warnings", self.warnings.join("\n")),
            field("Revision", self.revision),
        ]);
        let mut nodes = Table::new(&["NODE", "FITS", "SCORE", "FREE, OR WHY NOT"]);
        for one in &self.candidates {
            nodes.row(vec![one.node.clone(), one.count.to_string(), format!("{:.3}", one.score), free(one)]);
        }
        for refusal in &self.refusals {
            let why = format!("{}: {}", refusal.by, refusal.message);
            nodes.row(vec![refusal.node.clone(), "0".into(), String::new(), why]);
        }
        let mut text = format!("{fields}\n{}", nodes.render());
        let refused: u64 = self.refused.values().sum();
        let untold = refused.saturating_sub(self.refusals.len() as u64);
        if self.more + untold > 0 {
            let more = text::count(self.more as usize, "node");
            let by: Vec<_> = self.refused.iter().map(|(by, count)| format!("{count} × {by}")).collect();
            let by =
                if by.is_empty() { String::new() } else { format!("; refused in all: {}", by.join(", ")) };
            text += &format!("\nbehind --limit: {more} more that would take it{by}\n");
        }
        if !self.advice.is_empty() {
            text += &format!("\nWhat helps:\n{}", indented(&what_helps(&self.advice)));
        }
        text
    }
}

/// `VCPU 7 of 16`, of the classes that the VM would claim.
fn free(candidate: &Candidate) -> String {
    let class = |(class, free): (&String, &u64)| match candidate.summary.resources.get(class) {
        Some(has) => format!("{class} {free} of {}", has.capacity),
        None => format!("{class} {free}"),
    };
    candidate.free.iter().map(class).collect::<Vec<_>>().join(", ")
}
