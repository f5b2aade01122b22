//! Events: what happened, in order, for watchers. The last [`RING`] are kept in the state; whoever asks
//! for older ones is told that they are gone.

use imbl::Vector;
use serde::{Deserialize, Serialize};

use crate::id::{Revision, Timestamp};
use crate::reply::Kind;

/// How many events the state keeps.
pub const RING: usize = 4096;

/// One event, identified by (revision, n).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub revision: Revision,
    /// Position among the events of this revision, from 0.
    pub n: u32,
    pub at: Timestamp,
    pub kind: Kind,
    /// Id of the subject.
    pub id: String,
    /// Its name at the time.
    pub name: String,
    /// Past participle: `created`, `placed`, `active`, `deleted` …
    pub what: String,
    /// A sentence for people; may be empty.
    pub message: String,
    pub actor: String,
}

/// A bounded run of the latest events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ring {
    events: Vector<Event>,
    /// Highest revision of which an event was dropped.
    compacted: Revision,
}

/// The answer to "what happened after revision R".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// All events with a greater revision, in order.
    Events(Vec<Event>),
    /// Some of them are gone; the oldest revision one can ask for.
    Compacted { oldest: Revision },
}

impl Ring {
    pub(crate) fn push(&mut self, event: Event) {
        self.events.push_back(event);
        while self.events.len() > RING {
            if let Some(dropped) = self.events.pop_front() {
                self.compacted = dropped.revision;
            }
        }
    }

    /// What [`Plant::RenumberEvents`](crate::planted::Plant) does to events that clients have seen.
    pub(crate) fn renumber(&mut self) {
        for event in self.events.iter_mut() {
            event.revision = Revision(event.revision.0.saturating_sub(1));
        }
    }

    /// Events after `since`.
    pub fn since(&self, since: Revision) -> Since {
        if since < self.compacted {
            return Since::Compacted { oldest: self.compacted };
        }
        let at = self.events.partition_point(|e| e.revision <= since);
        Since::Events(self.events.skip(at).into_iter().collect())
    }

    /// The lowest revision that [`Ring::since`] can answer for.
    pub fn oldest(&self) -> Revision {
        self.compacted
    }
}

trait PartitionPoint {
    fn partition_point(&self, before: impl Fn(&Event) -> bool) -> usize;
}

impl PartitionPoint for Vector<Event> {
    fn partition_point(&self, before: impl Fn(&Event) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if before(&self[middle]) { low = middle + 1 } else { high = middle }
        }
        low
    }
}
