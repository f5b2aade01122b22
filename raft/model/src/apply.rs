//! Performs one entry on the state: dispatch here, a handler per resource beside it.

use crate::command::Entry;
use crate::event::Event;
use crate::reply::Reply;
use crate::state::State;

/// What applying one entry gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub reply: Reply,
    pub events: Vec<Event>,
}

/// Applies one entry.
pub fn apply(_state: &mut State, _entry: &Entry) -> Applied {
    unreachable!()
}
