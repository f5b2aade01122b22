//! Reads of VMs while faults happen: one that began after its create was acknowledged, and ended before any
//! delete was asked for, finds the VM; and once a read found a deleted VM gone, no later read finds it.

use std::collections::BTreeMap;

use super::Verdict;
use crate::history::Outcome;
use crate::workload::vm_lifecycle::{Answer, Call, Operation};

const NAME: &str = "reads";

/// What matters of one VM, in nanoseconds.
#[derive(Clone, Copy)]
struct Life {
    created: u64,
    /// The first delete was asked for.
    delete_asked: u64,
    delete_acknowledged: u64,
    /// The first read to find it gone after its delete was acknowledged had ended.
    seen_gone: u64,
}

/// Judges every read that was answered.
pub fn check(operations: &[Operation]) -> Verdict {
    let lives = lives(operations);
    let mut violations = Vec::new();
    let mut looked_at = 0;
    for operation in operations {
        let Call::Read { name } = &operation.call else { continue };
        let Some(life) = lives.get(name.as_str()) else { continue };
        match &operation.outcome {
            Outcome::Ok(Answer::Absent) => {
                looked_at += 1;
                if operation.invoked_ns > life.created && operation.completed_ns < life.delete_asked {
                    violations.push(format!(
                        "op {} at {} did not find {name}, whose create was acknowledged {} µs before",
                        operation.id,
                        operation.node,
                        (operation.invoked_ns - life.created) / 1000
                    ));
                }
            }
            Outcome::Ok(Answer::Found { .. }) => {
                looked_at += 1;
                if operation.invoked_ns > life.seen_gone {
                    violations.push(format!(
                        "op {} at {} found {name} again, after its delete was acknowledged and it was seen gone",
                        operation.id, operation.node
                    ));
                }
            }
            _ => {}
        }
    }
    Verdict::of(NAME, violations, format!("{looked_at} reads"))
}

fn lives(operations: &[Operation]) -> BTreeMap<&str, Life> {
    let never = Life {
        created: u64::MAX,
        delete_asked: u64::MAX,
        delete_acknowledged: u64::MAX,
        seen_gone: u64::MAX,
    };
    let mut lives = BTreeMap::<&str, Life>::new();
    for operation in operations {
        let life = lives.entry(operation.call.name()).or_insert(never);
        match (&operation.call, &operation.outcome) {
            (Call::Create { .. }, Outcome::Ok(_)) => life.created = life.created.min(operation.completed_ns),
            (Call::Delete { .. }, outcome) => {
                life.delete_asked = life.delete_asked.min(operation.invoked_ns);
                if outcome.ok().is_some() {
                    life.delete_acknowledged = life.delete_acknowledged.min(operation.completed_ns);
                }
            }
            _ => {}
        }
    }
    for operation in operations {
        if let (Call::Read { name }, Outcome::Ok(Answer::Absent)) = (&operation.call, &operation.outcome)
            && let Some(life) = lives.get_mut(name.as_str())
            && operation.invoked_ns > life.delete_acknowledged
        {
            life.seen_gone = life.seen_gone.min(operation.completed_ns);
        }
    }
    lives
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn fresh_reads_are_valid() {
        let operations = history(vec![
            (read("a"), absent()),
            (create("a"), created(1)),
            (read("a"), found(1)),
            (delete("a"), deleted()),
            (read("a"), found(1)), // in DELETING
            (read("a"), absent()),
            (read("a"), absent()),
        ]);
        assert!(check(&operations).is_valid());
    }

    #[test]
    fn a_read_that_misses_an_acknowledged_create_is_invalid() {
        assert!(!check(&history(vec![(create("a"), created(1)), (read("a"), absent())])).is_valid());
    }

    #[test]
    fn a_read_that_began_before_the_acknowledgement_may_miss_it() {
        let operations =
            vec![operation(0, (0, 10), create("a"), created(1)), operation(1, (9, 20), read("a"), absent())];
        assert!(check(&operations).is_valid());
    }

    #[test]
    fn a_deleted_vm_that_is_seen_again_is_invalid() {
        let operations = history(vec![
            (create("a"), created(1)),
            (delete("a"), deleted()),
            (read("a"), absent()),
            (read("a"), found(1)),
        ]);
        assert!(!check(&operations).is_valid());
    }
}
