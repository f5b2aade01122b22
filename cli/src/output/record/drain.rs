//! A drain as people see it: what is left on the node, and what becomes of each VM.

use holm_api::{DrainPinned, DrainProgress, LeftVm, NextForVm};

use super::vm::hosts;
use super::{Record, field};
use crate::output::table::{self, Table};
use crate::output::text::{self, Now};

impl Record for DrainProgress {
    const COLUMNS: &'static [&'static str] = &["NODE", "STATE", "PINNED", "LEFT"];

    fn name(&self) -> String {
        self.node.clone()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        vec![self.node.clone(), state(self), self.pinned.as_str().into(), self.left.len().to_string()]
    }

    fn detail(&self, now: Now) -> String {
        let since = self.since.as_ref().map(|since| format!("{} ago", now.age(since))).unwrap_or_default();
        let pinned = match self.pinned {
            DrainPinned::Stop => "stopped, until the node takes VMs again",
            DrainPinned::Keep => "kept running",
        };
        let mut text = table::fields(&[
            field("Drain of", &self.node),
            field("State", state(self)),
            field("Since", since),
            field("Pinned VMs", pinned),
            field("Guests get", format!("{} s to shut down", self.stop_timeout_s)),
        ]);
        if !self.left.is_empty() {
            let mut left = Table::new(&["VM", "AVAILABILITY", "NEXT"]);
            for vm in &self.left {
                left.row(vec![vm.name.clone(), vm.availability.as_str().into(), next(vm)]);
            }
            text += &format!("\n{}", left.render());
        }
        let stuck = self.left.iter().filter(|left| left.next == NextForVm::Stuck);
        let reasons: Vec<_> = stuck.map(|left| (left.name.clone(), hosts(&left.refusals))).collect();
        if !reasons.is_empty() {
            text += &format!("\n{}", table::fields(&reasons));
        }
        text
    }
}

fn state(drain: &DrainProgress) -> String {
    match () {
        () if drain.dry_run => "nothing was changed: this is what would be".into(),
        () if drain.done => "done".into(),
        () if !drain.node_up => format!("waits for the node, which is down; {}", left_in_words(drain)),
        () => left_in_words(drain),
    }
}

/// `3 left: 2 leaving, 1 stuck`.
pub fn left_in_words(drain: &DrainProgress) -> String {
    const ALL: [NextForVm; 6] = [
        NextForVm::Leaving,
        NextForVm::Moves,
        NextForVm::Stopping,
        NextForVm::Stops,
        NextForVm::Stuck,
        NextForVm::Kept,
    ];
    let of = |next| drain.left.iter().filter(|left| left.next == next).count();
    let words = |next| match next {
        NextForVm::Leaving => "leaving",
        NextForVm::Moves => "to leave",
        NextForVm::Stopping => "shutting down",
        NextForVm::Stops => "to shut down",
        NextForVm::Stuck => "with nowhere to go",
        NextForVm::Kept => "kept",
    };
    let counts = ALL.map(|next| (of(next), words(next)));
    let counts =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}"));
    let counts: Vec<_> = counts.collect();
    match counts.is_empty() {
        true => "nothing is left".into(),
        false => format!("{} left: {}", text::count(drain.left.len(), "VM"), counts.join(", ")),
    }
}

fn next(left: &LeftVm) -> String {
    match left.next {
        NextForVm::Leaving => "is leaving".into(),
        NextForVm::Moves => match &left.to {
            Some(to) => format!("leaves when it is its turn; {to} has room"),
            None => "leaves when it is its turn".into(),
        },
        NextForVm::Stuck => "has nowhere to go, and runs on".into(),
        NextForVm::Stopping => "is shutting down".into(),
        NextForVm::Stops => "is shut down when it is its turn".into(),
        NextForVm::Kept => "runs on".into(),
    }
}
