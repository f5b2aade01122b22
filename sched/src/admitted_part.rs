//! How much of a batch that need not come whole N+1 lets in: the greatest first part against which nothing is said. The
//! rest is then refused by apply, one by one, and these are not.

use holm_model::command::CreateVms;
use holm_model::{Actor, Command, Revision, State, Timestamp};

use crate::admission::objections;

/// A batch of which not all is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The batch as [`crate::admission::admitted_at`] has it, what is not let in marked as not judged.
    pub command: Command,
    /// How many are let in.
    pub vms: usize,
    /// What is said against one more.
    pub objections: Vec<String>,
}

/// The part of a batch that is let in, where `said` is said against all of it. None if it must come whole, or none of it
/// is let in.
pub fn part_of(
    state: &State,
    at: Timestamp,
    actor: &Actor,
    command: &Command,
    said: Vec<String>,
) -> Option<Part> {
    let Command::CreateVms(batch) = command else { return None };
    if batch.atomic {
        return None;
    }
    let (mut vms, mut too_many, mut objections_to_more) = (0, batch.items.len(), said);
    while too_many - vms > 1 {
        let half = vms + (too_many - vms) / 2;
        let first = Command::CreateVms(CreateVms { items: batch.items[..half].to_vec(), atomic: false });
        // What apply refuses takes no room.
        let said = objections(state, at, actor, &first).unwrap_or_default();
        if said.is_empty() {
            vms = half;
        } else {
            (too_many, objections_to_more) = (half, said);
        }
    }
    let mut part = batch.clone();
    part.items.iter_mut().skip(vms).for_each(|vm| vm.admitted = Some(Revision::default()));
    (vms > 0).then_some(Part { command: Command::CreateVms(part), vms, objections: objections_to_more })
}
