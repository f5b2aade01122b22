//! A controller: one of the leader's decision loops. It reads the applied state and a few volatile facts
//! and answers with commands; it has no clock, no memory and no IO, so the same inputs give the same
//! decision. The driver runs it only after its process' `BeginLeadership` was applied, and again only
//! when the outcome of its last commands is known.

use std::collections::{BTreeMap, BTreeSet};

use holm_model::command::Command;
use holm_model::{NodeId, Revision, State, Timestamp};

/// What a leader knows that is not in the replicated state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub now: Timestamp,
    /// For each node this process has watched as leader, milliseconds since it was last heard, counted
    /// from the beginning of this leadership at the earliest; the leader itself is at 0. A node that is
    /// missing here is not judged.
    pub silent_ms: BTreeMap<NodeId, u64>,
    /// Nodes this leadership has not heard yet at all. It may be too young to call them down; it does not
    /// place anything there.
    pub unheard: BTreeSet<NodeId>,
    /// Nodes of which every lease has ended, whoever granted it (FENCING.md, rule 8).
    pub fenceable: BTreeSet<NodeId>,
    /// Leases given under an earlier, longer ttl have ended.
    pub longer_leases_ended: bool,
    /// The freeze of which every lease has ended.
    pub thawed: Option<Revision>,
}

/// A decision that nothing is to change, and what it was made on. The driver keeps it, so that a controller is not asked
/// again before anything it looks at has changed.
#[derive(Clone, Debug)]
pub struct Rest {
    /// The latest state in which it would have decided the same.
    pub state: State,
    pub facts: Facts,
    /// Time alone changes the decision then.
    pub until: Timestamp,
}

/// A pure decision.
pub trait Controller: Send + Sync {
    /// For logs, metrics and the actor of its commands: `controller/<name>`.
    fn name(&self) -> &'static str;

    /// Whether only time makes it decide otherwise. It is asked once a period then, not after every entry: it may look
    /// at every VM there is.
    fn is_timed(&self) -> bool {
        false
    }

    /// Having decided that nothing is to change: until when that holds, unless something else changes. None: it is asked
    /// again whatever happens.
    fn rests_until(&self, _state: &State, _facts: &Facts) -> Option<Timestamp> {
        None
    }

    /// Whether nothing that it looks at is another than when it came to rest.
    fn sees_the_same(&self, _rest: &Rest, _state: &State, _facts: &Facts) -> bool {
        false
    }

    /// What should change, given how things are. Empty when nothing should.
    fn decide(&self, state: &State, facts: &Facts) -> Vec<Command>;

    /// [`Controller::decide`], unless it rests: then nothing, and `rest` is as before, of this state.
    fn decide_unless_at_rest(&self, rest: &mut Option<Rest>, state: &State, facts: &Facts) -> Vec<Command> {
        if let Some(rest) = rest
            && facts.now < rest.until
            && self.sees_the_same(rest, state, facts)
        {
            rest.state = state.clone();
            return Vec::new();
        }
        let commands = self.decide(state, facts);
        let until = if commands.is_empty() { self.rests_until(state, facts) } else { None };
        *rest = until.map(|until| Rest { state: state.clone(), facts: facts.clone(), until });
        commands
    }
}
