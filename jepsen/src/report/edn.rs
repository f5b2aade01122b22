//! The history as Jepsen writes it (`history.edn`): one map a line with `:index :time :type :process :f :value`,
//! so that its checkers and plots, or anybody's, can be run over it. Registers are `[key value]`, transactions are
//! vectors of `[:r key list]` and `[:append key number]`; other values become maps. Faults are the nemesis' own.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::history::stored::Line;

/// Writes the file.
///
/// # Errors
/// When that is not possible.
pub fn write(lines: &[Line], to: &Path) -> Result<()> {
    std::fs::write(to, export(lines)).with_context(|| format!("cannot write {}", to.display()))
}

/// The whole history.
pub fn export(lines: &[Line]) -> String {
    let mut out = String::new();
    let mut calls: Vec<&Line> = Vec::new();
    let mut index = 0;
    for line in lines {
        let map = match line.kind() {
            "invoke" => {
                calls.push(line);
                operation(line, line, index)
            }
            "ok" | "fail" | "info" => {
                let at = line.number("op").and_then(|op| usize::try_from(op).ok());
                let Some(call) = at.and_then(|at| calls.get(at)) else { continue };
                operation(line, call, index)
            }
            "fault" | "healed" => fault(line, index),
            _ => continue,
        };
        index += 1;
        let _ = writeln!(out, "{map}");
    }
    out
}

fn operation(line: &Line, call: &Line, index: u64) -> String {
    let (f, kind, answer) = (call.text("f"), line.kind(), line.body.get("answer"));
    let known = answer.filter(|_| kind == "ok");
    let value = value(f, call.body.get("value").unwrap_or(&Value::Null), known);
    let error = match (kind, answer) {
        ("fail", Some(refusal)) => {
            let (code, detail) = (&refusal["code"], &refusal["detail"]);
            format!(", :error [{} {}]", keyword(code.as_str().unwrap_or("refused")), edn(detail))
        }
        ("info", Some(why)) => format!(", :error {}", edn(why)),
        _ => String::new(),
    };
    format!(
        "{{:index {index}, :time {}, :type :{kind}, :process {}, :f {}, :value {value}, :node {}{error}}}",
        line.time_ns,
        line.number("process").unwrap_or(0),
        keyword(f),
        edn(&Value::from(call.text("node")))
    )
}

fn fault(line: &Line, index: u64) -> String {
    let fault = line.body.get("fault").unwrap_or(&Value::Null);
    let what = fault["kind"].as_str().unwrap_or("fault");
    let f = if line.kind() == "fault" { format!(":start-{what}") } else { format!(":stop-{what}") };
    format!(
        "{{:index {index}, :time {}, :type :info, :process :nemesis, :f {f}, :value {}}}",
        line.time_ns,
        edn(&fault["node"])
    )
}

fn value(f: &str, call: &Value, answer: Option<&Value>) -> String {
    let key = call.get("key");
    match (f, key) {
        ("read", Some(key)) => {
            let seen = answer.and_then(|answer| answer.get("value")).unwrap_or(&Value::Null);
            format!("[{} {}]", edn(key), edn(seen))
        }
        ("write", Some(key)) => format!("[{} {}]", edn(key), edn(&call["to"])),
        ("cas", Some(key)) => format!("[{} [{} {}]]", edn(key), edn(&call["from"]), edn(&call["to"])),
        ("txn", _) => steps(answer.unwrap_or(call)),
        _ => match answer {
            Some(answer) if call.is_null() => edn(answer),
            Some(answer) => format!("[{} {}]", edn(call), edn(answer)),
            None => edn(call),
        },
    }
}

fn steps(steps: &Value) -> String {
    let step = |step: &Value| match step.as_array().map(Vec::as_slice) {
        Some([word, rest @ ..]) => {
            let rest: Vec<_> = rest.iter().map(edn).collect();
            format!("[{} {}]", keyword(word.as_str().unwrap_or("r")), rest.join(" "))
        }
        _ => edn(step),
    };
    format!("[{}]", steps.as_array().into_iter().flatten().map(step).collect::<Vec<_>>().join(" "))
}

fn keyword(word: &str) -> String {
    format!(":{}", word.replace('_', "-"))
}

/// JSON as EDN: strings and numbers are written alike.
fn edn(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(edn).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{} {}", keyword(name), edn(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use adya::history::OpType;
    use adya::{History, Opts, Valid, Workload};
    use serde_json::json;

    use super::*;
    use crate::history::operation::Refusal;
    use crate::history::{Fault, FaultKind, Journal, Outcome, Recorder, stored};
    use crate::workload::{lists, registers};

    fn exported(record: impl FnOnce(Arc<Journal>)) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let journal = Arc::new(Journal::create(&path, &json!({"test": "t"})).unwrap());
        record(journal);
        export(&stored::lines(&path).unwrap())
    }

    /// Without its times.
    fn timeless(text: &str) -> Vec<String> {
        let line = |line: &str| {
            let (head, rest) = line.split_once(":time ").unwrap();
            format!("{head}{}", rest.split_once(", ").unwrap().1)
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn a_register_history_has_the_keys_and_values_of_jepsen() {
        let text = exported(|journal| {
            let log = Recorder::new(journal.clone());
            let read = log.invoke(0, "n1", registers::Call::Read { key: 2 });
            let cas = log.invoke(1, "n2", registers::Call::Cas { key: 2, from: 4, to: 5 });
            log.complete(read, Outcome::Ok(registers::Answer::Value(4)));
            let detail = "it \"has\" changed".to_owned();
            log.complete(cas, Outcome::Fail(Refusal { code: "revision_mismatch".to_owned(), detail }));
            let fault =
                Fault { took_hold: true, ..Fault::new(FaultKind::PartitionLeader, "n3".to_owned(), true, 1) };
            journal.write(&json!({"type": "fault", "fault": fault}));
        });
        assert_eq!(
            timeless(&text),
            [
                r#"{:index 0, :type :invoke, :process 0, :f :read, :value [2 nil], :node "n1"}"#,
                r#"{:index 1, :type :invoke, :process 1, :f :cas, :value [2 [4 5]], :node "n2"}"#,
                r#"{:index 2, :type :ok, :process 0, :f :read, :value [2 4], :node "n1"}"#,
                r#"{:index 3, :type :fail, :process 1, :f :cas, :value [2 [4 5]], :node "n2", :error [:revision-mismatch "it \"has\" changed"]}"#,
                r#"{:index 4, :type :info, :process :nemesis, :f :start-partition-leader, :value "n3"}"#,
            ]
        );
        // A reader of Jepsen's format takes it; operations that are no transactions do not concern it.
        assert!(History::from_edn(&text).unwrap().ops.is_empty());
    }

    #[test]
    fn an_append_history_is_read_and_judged_by_a_reader_of_jepsens_format() {
        let append = |number| lists::Micro::Append(lists::AppendWord::Append, 7, number);
        let read = |list: &[u64]| lists::Micro::Read(lists::ReadWord::Read, 7, Some(list.to_vec()));
        let text = |last: &[u64]| {
            exported(|journal| {
                let log = Recorder::new(journal);
                for steps in [vec![append(1)], vec![append(2)], vec![read(last)]] {
                    let op = log.invoke(0, "n1", lists::Call::Txn(steps.clone()));
                    log.complete(op, Outcome::Ok(steps));
                }
            })
        };
        let judge = |text: &str| {
            let history = History::from_edn(text).unwrap();
            assert_eq!(history.ops.iter().filter(|op| op.kind == OpType::Ok).count(), 3);
            let opts = Opts { models: vec!["strict-serializable".to_owned()], ..Opts::default() };
            adya::check(&history, Workload::ListAppend, &opts).valid
        };
        assert_eq!(judge(&text(&[1, 2])), Valid::True);
        assert_eq!(judge(&text(&[1])), Valid::False);
    }
}
