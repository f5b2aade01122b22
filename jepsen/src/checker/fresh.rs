//! No read is older than an acknowledged write: whatever was acknowledged before a read began is in its
//! answer. And nothing is in an answer that nobody had asked for yet.

use std::collections::BTreeMap;

use super::Verdict;
use crate::history::Outcome;
use crate::workload::flavor_set::{Answer, Call, Operation};

const NAME: &str = "fresh";

/// Judges every read that was answered.
pub fn check(operations: &[Operation]) -> Verdict {
    // By number: when it was first asked for, and when it was first acknowledged.
    let mut asked = BTreeMap::<u64, u64>::new();
    let mut acknowledged = BTreeMap::<u64, u64>::new();
    let first = |times: &mut BTreeMap<u64, u64>, number, at: u64| {
        times.entry(number).and_modify(|before| *before = at.min(*before)).or_insert(at);
    };
    for operation in operations {
        if let Call::Add(number) = operation.call {
            first(&mut asked, number, operation.invoked_ns);
            if operation.outcome.ok().is_some() {
                first(&mut acknowledged, number, operation.completed_ns);
            }
        }
    }
    let mut violations = Vec::new();
    let (mut gets, mut lists) = (0, 0);
    for read in operations {
        let stale = |number: u64, at: u64| {
            format!(
                "op {} at {} did not see {number}, acknowledged {} µs before it began",
                read.id,
                read.node,
                (read.invoked_ns - at) / 1000
            )
        };
        let early = |number: &u64| asked.get(number).is_none_or(|asked| *asked > read.completed_ns);
        match (&read.call, &read.outcome) {
            (Call::Get(number), Outcome::Ok(Answer::Present(present))) => {
                gets += 1;
                match acknowledged.get(number) {
                    Some(at) if *at < read.invoked_ns && !present => violations.push(stale(*number, *at)),
                    _ if *present && early(number) => {
                        violations.push(format!("op {} saw {number} before it was asked for", read.id));
                    }
                    _ => {}
                }
            }
            (Call::List, Outcome::Ok(Answer::All(all))) => {
                lists += 1;
                let seen: std::collections::BTreeSet<_> = all.iter().collect();
                if seen.len() != all.len() {
                    violations.push(format!("op {} at {} lists one twice", read.id, read.node));
                }
                let missed = acknowledged.iter().filter(|(_, at)| **at < read.invoked_ns);
                violations.extend(
                    missed
                        .filter(|(number, _)| !seen.contains(number))
                        .map(|(number, at)| stale(*number, *at)),
                );
                violations.extend(
                    all.iter()
                        .filter(|number| early(number))
                        .map(|number| format!("op {} saw {number} before it was asked for", read.id)),
                );
            }
            _ => {}
        }
    }
    let figures = format!("{} writes acknowledged, {gets} reads of one, {lists} of all", acknowledged.len());
    Verdict::of(NAME, violations, figures)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{in_turn, operation, refused, unknown};
    use super::*;

    fn present(is: bool) -> Outcome<Answer> {
        Outcome::Ok(Answer::Present(is))
    }

    fn all(numbers: &[u64]) -> Outcome<Answer> {
        Outcome::Ok(Answer::All(numbers.to_vec()))
    }

    const ADDED: Outcome<Answer> = Outcome::Ok(Answer::Added);

    #[test]
    fn reads_that_see_all_that_was_acknowledged_are_valid() {
        let operations = in_turn(vec![
            (Call::Add(0), ADDED),
            (Call::Add(1), unknown()),
            (Call::Get(0), present(true)),
            (Call::List, all(&[0])),
            (Call::List, all(&[0, 1])),
            (Call::Get(1), refused("unavailable")),
        ]);
        assert!(check(&operations).is_valid());
    }

    #[test]
    fn a_stale_read_of_one_or_of_all_is_invalid() {
        let added = (Call::Add(0), ADDED);
        assert!(!check(&in_turn(vec![added.clone(), (Call::Get(0), present(false))])).is_valid());
        assert!(!check(&in_turn(vec![added, (Call::List, all(&[]))])).is_valid());
    }

    #[test]
    fn a_retry_that_is_acknowledged_counts_from_then() {
        let operations = in_turn(vec![
            (Call::Add(0), unknown()),
            (Call::Get(0), present(false)),
            (Call::Add(0), ADDED),
            (Call::Get(0), present(false)),
        ]);
        let verdict = check(&operations);
        assert!(matches!(verdict.finding, super::super::Finding::Invalid(found) if found.len() == 1));
    }

    #[test]
    fn a_read_that_overlaps_the_write_may_miss_it() {
        let operations = vec![
            operation(0, (0, 10), Call::Add(0), ADDED),
            operation(1, (9, 20), Call::Get(0), present(false)),
        ];
        assert!(check(&operations).is_valid());
    }

    #[test]
    fn what_nobody_asked_for_is_invalid() {
        assert!(!check(&in_turn(vec![(Call::List, all(&[5]))])).is_valid());
        assert!(!check(&in_turn(vec![(Call::Get(5), present(true)), (Call::Add(5), ADDED)])).is_valid());
    }
}
