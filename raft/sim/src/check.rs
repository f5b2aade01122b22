//! What must hold at every step, whatever fails, told from what the members wrote and applied:
//!
//! - log matching: one entry at a place (term, leader, index), and the same one before it, on every host;
//! - committed entries are for ever: what anybody applied at an index everybody applies there, and nobody cuts it off;
//! - equal states at equal index;
//! - one process for every term and leader.
//!
//! What clients may see is in [`crate::client`].

use std::collections::BTreeMap;

use holm_model::{Incarnation, State};
use holm_raft::simulated::host::{Event, Position};

use crate::trace::{Trace, hash};

/// States are compared at every index that this divides: to encode one takes its time.
const COMPARED: u64 = 16;

/// An entry in a log: where, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: Position,
    sum: u64,
}

pub(crate) struct Check {
    pub(crate) trace: Trace,
    /// By host, as its store has it: what is not durable may go.
    logs: Vec<BTreeMap<u64, Entry>>,
    /// What was once at a place, and what before it.
    seen: BTreeMap<Position, (Entry, Option<Entry>)>,
    committed: BTreeMap<u64, Entry>,
    states: BTreeMap<u64, String>,
    leaders: BTreeMap<(u64, u64), Incarnation>,
    /// By host, the last index that its process applied.
    applied: Vec<Option<u64>>,
    violation: Option<String>,
}

impl Check {
    pub(crate) fn new(hosts: usize, trace: Trace) -> Self {
        Self {
            trace,
            logs: vec![BTreeMap::new(); hosts],
            seen: BTreeMap::new(),
            committed: BTreeMap::new(),
            states: BTreeMap::new(),
            leaders: BTreeMap::new(),
            applied: vec![None; hosts],
            violation: None,
        }
    }

    /// The first that was found.
    pub(crate) fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    pub(crate) fn violated(&mut self, what: String) {
        self.trace.line(format_args!("VIOLATION {what}"));
        self.violation.get_or_insert(what);
    }

    /// How many entries were committed.
    pub(crate) fn commits(&self) -> usize {
        self.committed.len()
    }

    pub(crate) fn terms(&self) -> u64 {
        self.committed.values().map(|entry| entry.at.term).max().unwrap_or(0)
    }

    pub(crate) fn event(&mut self, host: usize, event: &Event<'_>) {
        match event {
            Event::Appended { at, entry } => self.appended(host, Entry { at: *at, sum: hash(entry) }),
            Event::Truncated { after } => self.truncated(host, *after),
            Event::Applied { at, entry, state } => {
                self.applied(host, Entry { at: *at, sum: hash(entry) }, state);
            }
        }
    }

    fn appended(&mut self, host: usize, entry: Entry) {
        self.trace.line(format_args!("node {} writes {}", host + 1, words(entry)));
        let log = &mut self.logs[host];
        log.split_off(&entry.at.index);
        let before = entry.at.index.checked_sub(1).and_then(|index| log.get(&index).copied());
        log.insert(entry.at.index, entry);
        let (first, first_before) = *self.seen.entry(entry.at).or_insert((entry, before));
        if first != entry {
            return self.violated(format!(
                "log matching: node {} writes {}, another has {}",
                host + 1,
                words(entry),
                words(first)
            ));
        }
        if let (Some(before), Some(first_before)) = (before, first_before)
            && before != first_before
        {
            self.violated(format!(
                "log matching: before {} node {} has {}, another {}",
                words(entry),
                host + 1,
                words(before),
                words(first_before)
            ));
        }
    }

    fn truncated(&mut self, host: usize, after: Option<Position>) {
        let first = after.map_or(0, |at| at.index + 1);
        self.trace.line(format_args!("node {} cuts its log from {first}", host + 1));
        let cut = self.logs[host].split_off(&first);
        if let Some((_, entry)) = cut.iter().find(|(index, entry)| self.committed.get(index) == Some(entry)) {
            self.violated(format!("node {} cuts off {}, which is committed", host + 1, words(*entry)));
        }
    }

    fn applied(&mut self, host: usize, entry: Entry, state: &State) {
        let index = entry.at.index;
        self.trace.line(format_args!("node {} applies {}", host + 1, words(entry)));
        if self.applied[host].is_some_and(|before| index <= before) {
            self.violated(format!("node {} applies {} a second time", host + 1, words(entry)));
        }
        self.applied[host] = Some(index);
        let committed = *self.committed.entry(index).or_insert(entry);
        if committed != entry {
            self.violated(format!(
                "committed entries change: node {} applies {}, another has applied {}",
                host + 1,
                words(entry),
                words(committed)
            ));
        }
        if let Some(led) = &state.leadership {
            let incarnation = *self.leaders.entry((led.term, led.node.0)).or_insert(led.incarnation);
            if incarnation != led.incarnation {
                self.violated(format!(
                    "election safety: two processes led as node {} in term {}",
                    led.node, led.term
                ));
            }
        }
        if index.is_multiple_of(COMPARED) {
            self.holds(host, index, state);
        }
    }

    /// The state of `host` at `index`.
    pub(crate) fn holds(&mut self, host: usize, index: u64, state: &State) {
        let hash = holm_model::snapshot::hash(state);
        let first = self.states.entry(index).or_insert_with(|| hash.clone());
        if *first != hash {
            self.violated(format!("states differ: node {} holds another at index {index}", host + 1));
        }
    }

    /// The process on `host` is over; its disk still has `log`.
    pub(crate) fn ended(&mut self, host: usize, log: impl Iterator<Item = (u64, Vec<u8>)>) {
        self.applied[host] = None;
        let sums: BTreeMap<u64, u64> = log.map(|(index, record)| (index, hash(&record))).collect();
        let mut found = BTreeMap::new();
        for (entry, _) in self.seen.values() {
            if sums.get(&entry.at.index) == Some(&entry.sum) {
                found.insert(entry.at.index, *entry);
            }
        }
        self.logs[host] = found;
    }
}

fn words(entry: Entry) -> String {
    let Position { term, leader, index } = entry.at;
    format!("entry {index} of term {term}, leader {leader} ({:08x})", entry.sum & 0xffff_ffff)
}
