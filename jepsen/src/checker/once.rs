//! A key acts once, however often its request is sent: one `created` event a VM at most, exactly one where
//! the create was acknowledged, none where it was refused; every success names the same VM, and all but one
//! say that they repeat an answer.

use std::collections::{BTreeMap, BTreeSet};

use holm_api::{Event, EventKind};

use super::Verdict;
use super::acknowledged::{Known, known};
use crate::history::Outcome;
use crate::workload::vm_lifecycle::{Answer, Call, Operation};

const NAME: &str = "once";

/// Judges the answers, and the events one node gave from before the first operation to after the last.
pub fn check(operations: &[Operation], events: &[Event]) -> Verdict {
    let mut created = BTreeMap::<&str, usize>::new();
    for event in events.iter().filter(|event| event.kind == EventKind::Vm && event.what == "created") {
        *created.entry(&event.name).or_default() += 1;
    }
    let mut violations = Vec::new();
    let known = known(operations);
    for (name, (create, _)) in &known {
        let count = created.get(name).copied().unwrap_or(0);
        match (create, count) {
            (_, 2..) => violations.push(format!("{name} was created {count} times")),
            (Known::Acknowledged, 0) => {
                violations.push(format!("{name}: its create was acknowledged, and no event tells of it"));
            }
            (Known::Never | Known::Refused, 1) => {
                violations.push(format!("{name}: every create was refused, and an event tells of one"));
            }
            _ => {}
        }
    }
    let (repeated, answers) = repeated_answers(operations);
    violations.extend(answers);
    Verdict::of(NAME, violations, format!("{} keys, {repeated} requests sent again", known.len()))
}

fn repeated_answers(operations: &[Operation]) -> (usize, Vec<String>) {
    let mut by_key = BTreeMap::<(bool, &str), Vec<&Operation>>::new();
    for operation in operations {
        let delete = match operation.call {
            Call::Create { .. } | Call::Replay { .. } => false,
            Call::Delete { .. } => true,
            Call::Read { .. } => continue,
        };
        by_key.entry((delete, operation.call.name())).or_default().push(operation);
    }
    let repeated = by_key.values().map(|attempts| attempts.len() - 1).sum();
    let mut violations = Vec::new();
    for ((_, name), attempts) in by_key {
        let mut ids = BTreeSet::new();
        let mut first = Vec::new();
        for attempt in &attempts {
            match &attempt.outcome {
                Outcome::Ok(Answer::Created { id, duplicate }) => {
                    ids.insert(id);
                    if !duplicate {
                        first.push(attempt.id);
                    }
                }
                Outcome::Ok(Answer::Deleted { duplicate: false }) => first.push(attempt.id),
                // The name is used by this key alone: only its own earlier effect can have taken it.
                Outcome::Fail(refusal) if refusal.code == "name_taken" => {
                    violations.push(format!("{name}: op {} found its own name taken", attempt.id));
                }
                _ => {}
            }
        }
        if ids.len() > 1 {
            violations.push(format!("{name}: its key was answered with {} different VMs", ids.len()));
        }
        if first.len() > 1 {
            violations.push(format!("{name}: ops {first:?} each say that they acted first"));
        }
    }
    (repeated, violations)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn event(revision: u64, name: &str) -> Event {
        Event {
            revision,
            n: 0,
            at: holm_api::Timestamp(String::new()),
            kind: EventKind::Vm,
            id: String::new(),
            name: name.to_owned(),
            what: "created".to_owned(),
            message: String::new(),
            actor: String::new(),
        }
    }

    #[test]
    fn one_effect_whatever_was_retried_is_valid() {
        let operations = history(vec![
            (create("a"), unknown()),
            (create("a"), created_before(1)),
            (delete("a"), deleted()),
            (replay("a"), refused("not_found")),
            (create("b"), refused("unavailable")),
            (create("c"), unknown()),
        ]);
        assert!(check(&operations, &[event(4, "a")]).is_valid());
        assert!(check(&operations, &[event(4, "a"), event(5, "c")]).is_valid());
    }

    #[test]
    fn a_retry_that_created_again_is_invalid() {
        let operations = history(vec![(create("a"), created(1)), (replay("a"), created_before(1))]);
        assert!(!check(&operations, &[event(4, "a"), event(9, "a")]).is_valid());
    }

    #[test]
    fn a_retry_that_found_its_own_name_taken_is_invalid() {
        let operations = history(vec![(create("a"), unknown()), (create("a"), refused("name_taken"))]);
        assert!(!check(&operations, &[event(4, "a")]).is_valid());
    }

    #[test]
    fn two_vms_for_one_key_are_invalid() {
        let operations = history(vec![(create("a"), created(1)), (replay("a"), created_before(2))]);
        assert!(!check(&operations, &[event(4, "a")]).is_valid());
    }

    #[test]
    fn two_answers_that_each_claim_to_be_first_are_invalid() {
        let operations = history(vec![(create("a"), created(1)), (replay("a"), created(1))]);
        assert!(!check(&operations, &[event(4, "a")]).is_valid());
    }

    #[test]
    fn an_acknowledged_create_without_event_and_a_refused_one_with_it_are_invalid() {
        assert!(!check(&history(vec![(create("a"), created(1))]), &[]).is_valid());
        let refused = history(vec![(create("a"), refused("unavailable"))]);
        assert!(!check(&refused, &[event(4, "a")]).is_valid());
    }
}
