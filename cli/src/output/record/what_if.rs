//! Answers to questions without effect, as people see them: what would become of VMs, whether the cluster could
//! lose a node.

use holm_api::{Move, NPlusOne, NPlusOneVerdict, Stay, WhatIf};

use super::vm::{hosts, what_helps};
use super::{Record, field, indented};
use crate::output::table::{self, Table};
use crate::output::text::Now;

impl Record for WhatIf {
    const COLUMNS: &'static [&'static str] = &["LOSE", "DRAIN", "FIT", "STRANDED"];

    fn name(&self) -> String {
        "what-if".into()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        vec![self.lose.join(","), self.drain.join(","), self.fits.to_string(), self.stranded.to_string()]
    }

    fn detail(&self, _now: Now) -> String {
        let mut text = table::fields(&[
            field("Lose", self.lose.join(", ")),
            field("Drain", self.drain.join(", ")),
            field("Summary", &self.summary),
            field("Revision", self.revision),
        ]);
        if !self.vms.is_empty() {
            let mut moves = Table::new(&["VM", "FROM", "TO", "HOW"]);
            for moved in &self.vms {
                let to =
                    moved.to.as_deref().unwrap_or(if moved.stays.is_some() { "stays" } else { "nowhere" });
                moves.row(vec![moved.vm.clone(), moved.from.clone(), to.into(), how(self, moved).into()]);
            }
            text += &format!("\n{}", moves.render());
        }
        if !self.waiting.is_empty() {
            let mut waiting = Table::new(&["WAITS ALREADY", "WOULD GO TO"]);
            for one in &self.waiting {
                waiting.row(vec![one.vm.clone(), one.node.clone().unwrap_or_else(|| "nowhere".into())]);
            }
            text += &format!("\n{}", waiting.render());
        }
        for moved in self.vms.iter().filter(|moved| moved.to.is_none() && moved.stays.is_none()) {
            let refused = moved.refused.iter().map(|(by, hosts)| format!("{hosts} × {by}"));
            let refused = refused.collect::<Vec<_>>().join(", ");
            let counts = if refused.is_empty() { refused } else { format!(" ({refused})") };
            text +=
                &format!("\n{} would fit nowhere{counts}:\n{}", moved.vm, indented(&hosts(&moved.refusals)));
        }
        if !self.advice.is_empty() {
            text += &format!("\nWhat helps:\n{}", indented(&what_helps(&self.advice)));
        }
        text
    }
}

/// How a VM leaves, or what becomes of it where it is.
fn how(asked: &WhatIf, moved: &Move) -> &'static str {
    match moved.stays {
        Some(Stay::Off) => "it is off",
        Some(Stay::StopsOrKept) => "stopped or kept, as the drain is told",
        Some(Stay::Stops) => "the drain stops it",
        Some(Stay::Kept) => "the drain keeps it",
        Some(Stay::Leaving) => "it leaves already",
        None if !moved.by_itself => "when somebody moves it",
        None if asked.drain.contains(&moved.from) && moved.to.is_none() => "it runs on until there is room",
        None if asked.drain.contains(&moved.from) => "the drain moves it",
        None => "fails over",
    }
}

impl Record for NPlusOneVerdict {
    const COLUMNS: &'static [&'static str] = &["HOLDS", "FAILOVER VMS", "SUMMARY"];

    fn name(&self) -> String {
        "n-plus-one".into()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        vec![self.holds.to_string(), self.vms.to_string(), self.summary.clone()]
    }

    fn detail(&self, _now: Now) -> String {
        let policy = match self.policy {
            NPlusOne::Off => "off",
            NPlusOne::Warn => "warn",
            NPlusOne::Refuse => "refuse",
        };
        let fields = table::fields(&[
            field("N+1", if self.holds { "holds" } else { "does not hold" }),
            field("Summary", &self.summary),
            field("Policy", policy),
            field("Failover VMs", self.vms),
            field("Fit nowhere now", self.waiting.join(", ")),
            field("Revision", self.revision),
        ]);
        let mut losses = Table::new(&["WITHOUT", "FIT NOWHERE", "MISSING"]);
        for loss in &self.losses {
            let missing: Vec<_> = loss.missing.iter().map(|(class, n)| format!("{n} {class}")).collect();
            let stuck = format!("{} of {}: {}", loss.stuck.len(), loss.vms, loss.stuck.join(", "));
            losses.row(vec![loss.node.clone(), stuck, missing.join(", ")]);
        }
        if self.losses.is_empty() { fields } else { format!("{fields}\n{}", losses.render()) }
    }
}
