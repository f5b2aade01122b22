//! What stands for Raft: one log that a majority has, the term, who was elected last, and what the leader has
//! been asked to add and not committed yet. Replicas apply the entries themselves; what the first one came to
//! at an index is kept, and every other must come to the same.

use std::collections::VecDeque;

use holm_model::{Entry, State};

use super::event::{Ix, Ms, Origin};

/// An entry that the leader has appended and no majority has yet.
#[derive(Debug)]
pub struct Pending {
    pub entry: Entry,
    pub origin: Option<Origin>,
}

/// The log and its leadership.
#[derive(Debug)]
pub struct Log {
    pub entries: Vec<Entry>,
    /// Who waits for the entry at the same place.
    pub origins: Vec<Option<Origin>>,
    /// The state after each entry, as far as any replica has come; the first is the empty state.
    pub states: Vec<State>,
    pub term: u64,
    pub leader: Option<Ix>,
    pub pending: VecDeque<Pending>,
    /// Since when nobody leads who can.
    pub leaderless_since: Option<Ms>,
    /// How long the followers wait this time.
    pub patience: Ms,
}

impl Log {
    /// Empty, led by nobody.
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            origins: Vec::new(),
            states: vec![State::default()],
            term: 0,
            leader: None,
            pending: VecDeque::new(),
            leaderless_since: Some(0),
            patience: 500,
        }
    }

    /// The index of the last committed entry.
    pub fn committed(&self) -> u64 {
        self.entries.len() as u64
    }

    /// The newest state any replica has come to.
    pub fn newest(&self) -> &State {
        self.states.last().expect("the first state is always there")
    }
}
