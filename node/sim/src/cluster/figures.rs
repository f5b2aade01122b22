//! What happened in a run, in numbers, so that nobody takes an empty one for a good one.

use std::fmt;

use super::event::Ms;

/// The numbers of one run, or of many together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub events: u64,
    pub entries: u64,
    pub leaders: u64,
    pub faults: u64,
    /// Requests of users that were acknowledged.
    pub acknowledged: u64,
    /// Runs that were begun on some host.
    pub starts: u64,
    pub fences: u64,
    /// After the healing, until everything was as asked; of many runs, the longest.
    pub settled_after: Ms,
}

impl Figures {
    /// Takes another run into account.
    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.entries += other.entries;
        self.leaders += other.leaders;
        self.faults += other.faults;
        self.acknowledged += other.acknowledged;
        self.starts += other.starts;
        self.fences += other.fences;
        self.settled_after = self.settled_after.max(other.settled_after);
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} events, {} entries, {} leaders, {} faults, {} requests acknowledged, {} starts, {} fences, \
             settled {} ms after the healing at the latest",
            self.events,
            self.entries,
            self.leaders,
            self.faults,
            self.acknowledged,
            self.starts,
            self.fences,
            self.settled_after
        )
    }
}
