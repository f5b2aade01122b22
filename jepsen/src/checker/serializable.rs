//! Transactions over lists are strictly serializable: one order, in keeping with real time, explains every list
//! that was read. Adya's dependency cycles, lost appends, reads of what was refused and the like are found by the
//! crate `adya`, from the history as Jepsen writes it.

use adya::{History, Opts, Valid, Workload};
use serde_json::{Value, json};

use super::{Finding, Verdict};
use crate::history::Outcome;
use crate::workload::lists::{Call, Operation};

const NAME: &str = "serializable";
const MODEL: &str = "strict-serializable";

/// Judges the whole history.
pub fn check(operations: &[Operation]) -> Verdict {
    let history = match History::from_json(&as_jepsen(operations)) {
        Ok(history) => history,
        Err(error) => return Verdict::unknown(NAME, format!("the history cannot be read: {error}")),
    };
    let opts = Opts { models: vec![MODEL.to_owned()], ..Opts::default() };
    let report = adya::check(&history, Workload::ListAppend, &opts);
    let done = operations.iter().filter(|operation| operation.outcome.ok().is_some()).count();
    let figures = format!("{done} transactions");
    match report.valid {
        Valid::True if done == 0 => Verdict::unknown(NAME, "no transaction succeeded"),
        Valid::True => Verdict::of(NAME, Vec::new(), figures),
        Valid::Unknown => {
            let why = format!("it could not be told: {}", report.anomaly_types.join(", "));
            Verdict { checker: NAME, finding: Finding::Unknown(why), figures }
        }
        Valid::False => {
            let anomalies = report.anomalies.values().flatten();
            let lines = anomalies.map(|anomaly| format!("{}: {}", anomaly.kind, anomaly.explanation));
            Verdict::of(NAME, lines.collect(), figures)
        }
    }
}

/// Invocations and outcomes in the order in which they happened, one a line.
fn as_jepsen(operations: &[Operation]) -> String {
    let mut lines: Vec<(u64, Value)> = Vec::new();
    for operation in operations {
        let Call::Txn(steps) = &operation.call;
        let line = |kind: &str, steps: Value, at: u64| {
            json!({"type": kind, "f": "txn", "process": operation.process, "time": i64::try_from(at).unwrap_or(i64::MAX),
                   "value": steps})
        };
        lines.push((operation.invoked_ns, line("invoke", json!(steps), operation.invoked_ns)));
        let end = operation.completed_ns;
        lines.push((
            end,
            match &operation.outcome {
                Outcome::Ok(done) => line("ok", json!(done), end),
                Outcome::Fail(_) => line("fail", json!(steps), end),
                Outcome::Info(_) => line("info", json!(steps), end),
            },
        ));
    }
    lines.sort_by_key(|(at, _)| *at);
    let numbered = lines.into_iter().enumerate().map(|(index, (_, mut line))| {
        line["index"] = json!(index);
        line.to_string()
    });
    numbered.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{in_turn, operation, refused, unknown};
    use super::*;
    use crate::workload::lists::{AppendWord, Micro, ReadWord};

    fn append(key: u64, number: u64) -> Micro {
        Micro::Append(AppendWord::Append, key, number)
    }

    fn read(key: u64, list: &[u64]) -> Micro {
        Micro::Read(ReadWord::Read, key, Some(list.to_vec()))
    }

    fn done(steps: &[Micro]) -> (Call, Outcome<Vec<Micro>>) {
        (Call::Txn(steps.to_vec()), Outcome::Ok(steps.to_vec()))
    }

    #[test]
    fn one_order_of_all_is_valid() {
        let calls = vec![
            done(&[append(1, 1), append(2, 2)]),
            (Call::Txn(vec![append(1, 3)]), unknown()),
            done(&[read(1, &[1]), append(2, 4)]),
            done(&[read(2, &[2, 4]), read(1, &[1, 3])]),
            (Call::Txn(vec![append(1, 5)]), refused("revision_mismatch")),
        ];
        assert!(check(&in_turn(calls)).is_valid());
    }

    #[test]
    fn lost_forked_stale_and_refused_appends_are_invalid() {
        for bad in [
            vec![done(&[append(1, 1)]), done(&[read(1, &[])])],
            vec![done(&[append(1, 1)]), done(&[append(1, 2)]), done(&[read(1, &[2])])],
            vec![
                done(&[append(1, 1)]),
                done(&[append(1, 2)]),
                done(&[read(1, &[1, 2])]),
                done(&[read(1, &[2, 1])]),
            ],
            vec![(Call::Txn(vec![append(1, 1)]), refused("unavailable")), done(&[read(1, &[1])])],
        ] {
            assert!(matches!(check(&in_turn(bad.clone())).finding, Finding::Invalid(_)), "{bad:?}");
        }
    }

    #[test]
    fn two_that_each_missed_what_the_other_wrote_are_invalid() {
        let skew = |key, other| vec![append(key, key), read(other, &[])];
        let one = operation(0, (0, 50), Call::Txn(skew(1, 2)), Outcome::Ok(skew(1, 2)));
        let two = operation(1, (1, 51), Call::Txn(skew(2, 1)), Outcome::Ok(skew(2, 1)));
        let after = [read(1, &[1]), read(2, &[2])].to_vec();
        let after = operation(2, (60, 70), Call::Txn(after.clone()), Outcome::Ok(after));
        let mut operations = vec![one, two, after];
        operations[1].process = 1;
        assert!(matches!(check(&operations).finding, Finding::Invalid(_)));
    }

    #[test]
    fn nothing_done_proves_nothing() {
        assert!(matches!(check(&[]).finding, Finding::Unknown(_)));
    }
}
