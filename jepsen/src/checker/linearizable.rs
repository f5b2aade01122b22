//! Each register is linearizable: there is one order of its operations, in keeping with real time, in which every
//! read gives the value written last and every compare-and-set that succeeded found what it expected. An unknown
//! operation may take effect at any later time, or never. The search is porcupine's, bounded in time: what it
//! does not decide is unknown.

use std::collections::BTreeMap;
use std::time::Duration;

use porcupine_rs::{CheckResult, Model, Operation as Entry, check_operations_timeout};

use super::{Finding, Verdict};
use crate::history::Outcome;
use crate::workload::registers::{Answer, Call, Operation};

const NAME: &str = "linearizable";
/// For one key. Histories are kept short so that this is never near.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone)]
struct Register;

impl Model for Register {
    type State = u64;
    type Op = Step;
    type Metadata = ();

    fn init() -> u64 {
        0
    }

    fn step(state: &u64, op: &Step) -> (bool, u64) {
        match *op {
            Step::Read(value) => (*state == value, *state),
            Step::Write(to) => (true, to),
            Step::Cas(from, to) => (*state == from, to),
            // Whether it took effect is not known: if it found something else, it did not.
            Step::PerhapsCas(from, to) => (true, if *state == from { to } else { *state }),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Read(u64),
    Write(u64),
    Cas(u64, u64),
    PerhapsCas(u64, u64),
}

/// Judges key by key.
pub fn check(operations: &[Operation]) -> Verdict {
    let mut by_key = BTreeMap::<u64, Vec<&Operation>>::new();
    operations.iter().for_each(|operation| by_key.entry(operation.call.key()).or_default().push(operation));
    let mut violations = Vec::new();
    let mut undecided = Vec::new();
    for (key, operations) in &by_key {
        match search(operations, u64::MAX) {
            CheckResult::Ok => {}
            CheckResult::Unknown => undecided.push(key.to_string()),
            CheckResult::Illegal => violations.push(shown(*key, operations)),
        }
    }
    let longest = by_key.values().map(Vec::len).max().unwrap_or(0);
    let figures = format!("{} registers, at most {longest} operations on one", by_key.len());
    if violations.is_empty() && !undecided.is_empty() {
        let why = format!("no decision within {} s for register {}", LIMIT.as_secs(), undecided.join(", "));
        return Verdict { checker: NAME, finding: Finding::Unknown(why), figures };
    }
    if by_key.is_empty() {
        return Verdict::unknown(NAME, "there were no operations");
    }
    Verdict::of(NAME, violations, figures)
}

/// What was known at moment `now`: later operations did not begin, and those under way are not known yet.
fn search(operations: &[&Operation], now: u64) -> CheckResult {
    let entries: Vec<_> = operations.iter().filter_map(|operation| entry(operation, now)).collect();
    check_operations_timeout::<Register>(&entries, LIMIT)
}

fn entry(operation: &Operation, now: u64) -> Option<Entry<Register>> {
    if operation.invoked_ns > now {
        return None;
    }
    let outcome = if operation.completed_ns > now { None } else { Some(&operation.outcome) };
    let (op, known) = match (operation.call, outcome) {
        (_, Some(Outcome::Fail(_))) => return None,
        (Call::Read { .. }, Some(Outcome::Ok(Answer::Value(value)))) => (Step::Read(*value), true),
        (Call::Read { .. }, _) => return None,
        (Call::Write { to, .. }, Some(Outcome::Ok(_))) => (Step::Write(to), true),
        (Call::Write { to, .. }, _) => (Step::Write(to), false),
        (Call::Cas { from, to, .. }, Some(Outcome::Ok(_))) => (Step::Cas(from, to), true),
        (Call::Cas { from, to, .. }, _) => (Step::PerhapsCas(from, to), false),
    };
    let time = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    Some(Entry {
        client_id: None,
        call_time: time(operation.invoked_ns),
        return_time: if known { time(operation.completed_ns) } else { i64::MAX },
        op,
        metadata: None,
    })
}

/// The operation whose answer no order explains any more, and what was going on around it.
fn shown(key: u64, operations: &[&Operation]) -> String {
    let mut ends: Vec<u64> = operations.iter().map(|operation| operation.completed_ns).collect();
    ends.sort_unstable();
    // Illegal stays illegal when more becomes known: the first such moment is found by halving.
    let first = ends.partition_point(|now| search(operations, *now) != CheckResult::Illegal);
    let Some(now) = ends.get(first) else { return format!("register {key} is not linearizable") };
    let culprit = operations.iter().find(|operation| operation.completed_ns == *now);
    let Some(culprit) = culprit else { return format!("register {key} is not linearizable") };
    let mut around: Vec<_> = operations
        .iter()
        .filter(|other| other.invoked_ns <= *now && !matches!(other.outcome, Outcome::Fail(_)))
        .collect();
    around.sort_by_key(|operation| operation.completed_ns.min(*now));
    let around = around.iter().rev().take(6).rev().map(|operation| line(operation));
    format!(
        "register {key}: no order explains op {}; the latest it knew:\n{}",
        culprit.id,
        around.collect::<Vec<_>>().join("\n")
    )
}

fn line(operation: &Operation) -> String {
    let ms = |ns: u64| if ns == u64::MAX { "never".to_owned() } else { format!("{:.1}", ns as f64 / 1e6) };
    let outcome = match &operation.outcome {
        Outcome::Ok(answer) => format!("{answer:?}"),
        Outcome::Fail(refusal) => refusal.code.clone(),
        Outcome::Info(_) => "unknown".to_owned(),
    };
    format!(
        "  op {} at {}, {}–{} ms: {:?} → {outcome}",
        operation.id,
        operation.node,
        ms(operation.invoked_ns),
        ms(operation.completed_ns),
        operation.call
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{in_turn, operation, refused, unknown};
    use super::*;

    const KEY: u64 = 0;
    const WRITTEN: Outcome<Answer> = Outcome::Ok(Answer::Written);

    fn read(value: u64) -> (Call, Outcome<Answer>) {
        (Call::Read { key: KEY }, Outcome::Ok(Answer::Value(value)))
    }

    fn write(to: u64) -> (Call, Outcome<Answer>) {
        (Call::Write { key: KEY, to }, WRITTEN)
    }

    fn cas(from: u64, to: u64) -> (Call, Outcome<Answer>) {
        (Call::Cas { key: KEY, from, to }, WRITTEN)
    }

    #[test]
    fn what_a_register_does_is_valid() {
        let lost = (Call::Write { key: KEY, to: 9 }, unknown());
        let refused = (Call::Cas { key: KEY, from: 5, to: 6 }, refused("revision_mismatch"));
        let calls = vec![read(0), write(1), refused, cas(1, 2), read(2), lost, read(2), read(9), read(9)];
        assert!(check(&in_turn(calls)).is_valid());
    }

    #[test]
    fn stale_lost_and_invented_values_are_invalid() {
        for bad in [
            vec![write(1), read(0)],
            vec![write(1), write(2), read(1)],
            vec![read(7)],
            vec![write(1), cas(0, 2)],
            vec![write(1), cas(1, 2), cas(1, 3)],
            vec![(Call::Write { key: KEY, to: 1 }, refused("unavailable")), read(1)],
        ] {
            assert!(matches!(check(&in_turn(bad.clone())).finding, Finding::Invalid(_)), "{bad:?}");
        }
    }

    #[test]
    fn an_unknown_compare_and_set_may_have_happened_or_not_but_not_both() {
        let perhaps = (Call::Cas { key: KEY, from: 1, to: 2 }, unknown());
        let after = |reads: Vec<(Call, Outcome<Answer>)>| [vec![write(1), perhaps.clone()], reads].concat();
        assert!(check(&in_turn(after(vec![read(1), read(2)]))).is_valid());
        assert!(check(&in_turn(after(vec![read(1), read(1)]))).is_valid());
        assert!(!check(&in_turn(after(vec![read(2), read(1)]))).is_valid());
    }

    #[test]
    fn the_verdict_names_the_operation_that_cannot_be_explained() {
        let mut operations = in_turn(vec![write(1), read(1), write(2), read(1), read(2)]);
        operations.push(operation(5, (100, 110), Call::Read { key: 1 }, Outcome::Ok(Answer::Value(0))));
        let Finding::Invalid(why) = check(&operations).finding else { panic!("it is invalid") };
        assert_eq!(why.len(), 1, "the other register is fine");
        assert!(why[0].starts_with("register 0: no order explains op 3"), "{}", why[0]);
    }

    #[test]
    fn no_operations_prove_nothing() {
        assert!(matches!(check(&[]).finding, Finding::Unknown(_)));
    }
}
