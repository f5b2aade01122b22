//! The life of a VM as an automaton: what its client asked for, and what each attempt came to, leaves a set of states
//! that the VM may be in. An attempt that succeeded took effect at some moment between its beginning and its end, one
//! of unknown outcome at any moment from its beginning on, or never; a refusal changed nothing. What the cluster does
//! by itself (building, failing, finishing a delete) may happen at any moment. Every state that a read showed must be
//! in the set, and the set is then what is left of it. A set that becomes empty is a violation.

use std::collections::{BTreeMap, BTreeSet};

use holm_api::VmStatus;

use super::Verdict;
use crate::history::Outcome;
use crate::workload::vm_lifecycle::{Answer, Call, Operation};

const NAME: &str = "states";

/// Where a VM may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// Nobody created it yet.
    Never,
    Building,
    /// It was built: it runs, or is off or lost for the moment.
    Built,
    Error,
    Deleting,
    Gone,
}

use State::{Building, Built, Deleting, Error, Gone, Never};

impl State {
    /// Where it may be next without anybody asking.
    fn by_itself(self) -> &'static [State] {
        match self {
            Building => &[Built, Error],
            Built => &[Error],
            Error => &[Built],
            Deleting => &[Gone],
            Never | Gone => &[],
        }
    }

    fn shows(self, status: VmStatus) -> bool {
        match status {
            VmStatus::Build => self == Building,
            VmStatus::Error => self == Error,
            VmStatus::Deleting => self == Deleting,
            VmStatus::Active | VmStatus::Paused | VmStatus::Shutoff | VmStatus::Migrating => self == Built,
        }
    }
}

/// What an attempt does at the one moment at which it takes effect.
#[derive(Clone, Copy, Debug)]
enum Effect {
    Creates,
    Deletes,
    /// An answer that was given before, be it to an earlier attempt or, where the node that was asked sent the request
    /// again by itself, to this one.
    HasCreated,
    HasDeleted,
    /// It changes nothing, and finds one of these.
    Finds(fn(State, Option<VmStatus>) -> bool, Option<VmStatus>),
}

impl Effect {
    fn on(self, state: State) -> Option<State> {
        match self {
            Self::Creates => (state == Never).then_some(Building),
            Self::Deletes => matches!(state, Building | Built | Error).then_some(Deleting),
            Self::HasCreated => Some(if state == Never { Building } else { state }),
            Self::HasDeleted => match state {
                Never => None,
                Building | Built | Error => Some(Deleting),
                Deleting | Gone => Some(state),
            },
            Self::Finds(fits, status) => fits(state, status).then_some(state),
        }
    }
}

/// A state, and those of the attempts under way that have taken effect.
type Possible = (State, BTreeSet<usize>);

/// Judges each VM by itself: its name is used once.
pub fn check(operations: &[Operation]) -> Verdict {
    let mut by_name = BTreeMap::<&str, Vec<&Operation>>::new();
    for operation in operations {
        by_name.entry(operation.call.name()).or_default().push(operation);
    }
    let violations = by_name.iter().filter_map(|(name, operations)| Some(follow(operations)?.told(name)));
    let violations: Vec<_> = violations.collect();
    Verdict::of(NAME, violations, format!("{} operations on {} VMs", operations.len(), by_name.len()))
}

/// An answer that cannot be.
struct Impossible<'a> {
    operation: &'a Operation,
    /// Where the VM might have been before it.
    before: BTreeSet<State>,
}

impl Impossible<'_> {
    fn told(&self, name: &str) -> String {
        let Operation { id, node, call, outcome, .. } = self.operation;
        format!(
            "{name}: op {id} at {node}, {call:?}, was answered {outcome:?}, when the VM could only be {:?}",
            self.before
        )
    }
}

fn follow<'a>(operations: &[&'a Operation]) -> Option<Impossible<'a>> {
    // Ends before beginnings at one moment: an attempt that begins as another ends is later.
    let mut moments = Vec::new();
    for (at, operation) in operations.iter().enumerate() {
        moments.push((operation.invoked_ns, true, at));
        moments.push((operation.completed_ns, false, at));
    }
    moments.sort_unstable();
    let mut possible = BTreeSet::from([(Never, BTreeSet::new())]);
    let mut under_way = BTreeMap::<usize, Effect>::new();
    // Of unknown outcome: they may take effect at any time from now on.
    let mut open = Vec::new();
    for (_, begins, at) in moments {
        let operation = operations[at];
        if begins {
            match effect(operation) {
                Some(effect) if operation.outcome.is_info() => open.push(effect),
                Some(effect) => drop(under_way.insert(at, effect)),
                None => {}
            }
        }
        grow(&mut possible, &under_way, &open);
        if begins || under_way.remove(&at).is_none() {
            continue;
        }
        let before = possible.iter().map(|(state, _)| *state).collect();
        possible.retain(|(_, done)| done.contains(&at));
        possible = possible.into_iter().map(|(state, done)| (state, without(done, at))).collect();
        if possible.is_empty() {
            return Some(Impossible { operation, before });
        }
    }
    None
}

/// Everything that may have happened by now.
fn grow(possible: &mut BTreeSet<Possible>, under_way: &BTreeMap<usize, Effect>, open: &[Effect]) {
    let mut new: Vec<Possible> = possible.iter().cloned().collect();
    while let Some((state, done)) = new.pop() {
        let by_itself = state.by_itself().iter().map(|next| (*next, done.clone()));
        let late = open.iter().filter_map(|effect| Some((effect.on(state)?, done.clone())));
        let answered = under_way.iter().filter(|(at, _)| !done.contains(at)).filter_map(|(at, effect)| {
            let mut done = done.clone();
            done.insert(*at);
            Some((effect.on(state)?, done))
        });
        let next: Vec<_> = by_itself.chain(late).chain(answered).collect();
        new.extend(next.into_iter().filter(|next| possible.insert(next.clone())));
    }
}

fn without(mut done: BTreeSet<usize>, at: usize) -> BTreeSet<usize> {
    done.remove(&at);
    done
}

/// What the attempt does, or would; none: it says nothing about the VM.
fn effect(operation: &Operation) -> Option<Effect> {
    let there = |state, _| !matches!(state, Never | Gone);
    let absent = |state, _| matches!(state, Never | Gone);
    let was_created = |state, _| state != Never;
    let shows = |state: State, status: Option<VmStatus>| status.is_some_and(|status| state.shows(status));
    match (&operation.call, &operation.outcome) {
        (Call::Create { .. }, Outcome::Ok(Answer::Created { duplicate: true, .. })) => {
            Some(Effect::HasCreated)
        }
        (Call::Create { .. }, Outcome::Ok(_) | Outcome::Info(_)) => Some(Effect::Creates),
        // The first answer of a create that was acknowledged: it must not act.
        (Call::Replay { .. }, Outcome::Ok(_)) => Some(Effect::Finds(was_created, None)),
        (Call::Delete { .. }, Outcome::Ok(Answer::Deleted { duplicate: true })) => Some(Effect::HasDeleted),
        (Call::Delete { .. }, Outcome::Ok(_) | Outcome::Info(_)) => Some(Effect::Deletes),
        (Call::Delete { .. }, Outcome::Fail(refusal)) if refusal.code == "not_found" => {
            Some(Effect::Finds(absent, None))
        }
        (Call::Read { .. }, Outcome::Ok(Answer::Absent)) => Some(Effect::Finds(absent, None)),
        (Call::Read { .. }, Outcome::Ok(Answer::Found { status, .. })) => {
            Some(Effect::Finds(shows, Some(*status)))
        }
        (Call::Read { .. }, Outcome::Ok(_)) => Some(Effect::Finds(there, None)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::testing::*;
    use super::*;

    fn is(status: VmStatus) -> Outcome<Answer> {
        Outcome::Ok(Answer::Found { id: Uuid::from_u128(1), status })
    }

    fn valid(calls: Vec<(Call, Outcome<Answer>)>) -> bool {
        check(&history(calls)).is_valid()
    }

    #[test]
    fn a_whole_life_is_valid() {
        assert!(valid(vec![
            (read("a"), absent()),
            (create("a"), created(1)),
            (read("a"), is(VmStatus::Build)),
            (replay("a"), created_before(1)),
            (read("a"), is(VmStatus::Active)),
            (delete("a"), deleted()),
            (read("a"), is(VmStatus::Deleting)),
            (read("a"), absent()),
            (delete("a"), refused("not_found")),
        ]));
    }

    #[test]
    fn an_unknown_attempt_may_act_late_or_never() {
        for then in [absent(), is(VmStatus::Active)] {
            assert!(valid(vec![(create("a"), unknown()), (read("a"), absent()), (read("a"), then)]));
        }
        assert!(valid(vec![
            (create("a"), created(1)),
            (delete("a"), unknown()),
            (read("a"), is(VmStatus::Active)),
            (read("a"), absent()),
        ]));
    }

    #[test]
    fn an_answer_that_was_given_before_may_be_this_attempts_own() {
        let again = || Outcome::Ok(Answer::Deleted { duplicate: true });
        assert!(valid(vec![(create("a"), created_before(1)), (delete("a"), again()), (read("a"), absent())]));
        assert!(!valid(vec![
            (create("a"), created(1)),
            (delete("a"), again()),
            (read("a"), is(VmStatus::Active))
        ]));
    }

    #[test]
    fn it_does_not_come_back_and_is_not_built_again() {
        let life = || vec![(create("a"), created(1)), (read("a"), is(VmStatus::Active))];
        let with = |more: Vec<(Call, Outcome<Answer>)>| [life(), more].concat();
        assert!(!valid(with(vec![(delete("a"), deleted()), (read("a"), is(VmStatus::Active))])));
        assert!(!valid(with(vec![(read("a"), is(VmStatus::Build))])));
        assert!(!valid(with(vec![(read("a"), absent())])));
        assert!(!valid(with(vec![(read("a"), is(VmStatus::Deleting))])), "nobody asked for it");
    }

    #[test]
    fn what_was_refused_did_not_happen() {
        assert!(!valid(vec![(create("a"), refused("unavailable")), (read("a"), is(VmStatus::Build))]));
        assert!(!valid(vec![(create("a"), unknown()), (create("a"), created(1)), (read("a"), absent())]));
    }

    #[test]
    fn reads_that_overlap_a_delete_may_see_either_but_not_both_ways() {
        let at = |id, times, call, outcome| operation(id, times, call, outcome);
        let overlapping = |first: Outcome<Answer>, then: Outcome<Answer>| {
            check(&[
                at(0, (0, 5), create("a"), created(1)),
                at(1, (10, 50), delete("a"), deleted()),
                at(2, (12, 20), read("a"), first),
                at(3, (25, 40), read("a"), then),
            ])
            .is_valid()
        };
        assert!(overlapping(is(VmStatus::Active), absent()));
        assert!(overlapping(is(VmStatus::Deleting), absent()));
        assert!(!overlapping(absent(), is(VmStatus::Active)));
    }
}
