//! A history file read back: the same operations and faults as while it was written, so that a verdict can be
//! found again, by anybody, from the file alone.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::operation::{Fault, Operation, Outcome};

/// One line, as it is.
#[derive(Clone, Debug)]
pub struct Line {
    pub index: u64,
    pub time_ns: u64,
    pub body: Map<String, Value>,
}

impl Line {
    pub fn text(&self, field: &str) -> &str {
        self.body.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn number(&self, field: &str) -> Option<u64> {
        self.body.get(field).and_then(Value::as_u64)
    }

    /// `invoke`, `ok`, `fail` or `info` of an operation; something else on other lines.
    pub fn kind(&self) -> &str {
        self.text("type")
    }
}

/// Every line, the run's parameters first.
///
/// # Errors
/// When the file cannot be read, or a line is not what a journal writes. A last line that was cut short by the
/// end of the harness is left out.
pub fn lines(path: &Path) -> Result<Vec<Line>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let whole =
        if text.ends_with('\n') { &text[..] } else { text.rsplit_once('\n').map_or("", |(whole, _)| whole) };
    let line = |(number, line): (usize, &str)| {
        let at = || format!("{} line {}", path.display(), number + 1);
        let body: Map<String, Value> = serde_json::from_str(line).with_context(at)?;
        let field = |name: &str| {
            body.get(name).and_then(Value::as_u64).with_context(|| format!("{name} in {}", at()))
        };
        Ok(Line { index: field("index")?, time_ns: field("time_ns")?, body })
    };
    whole.lines().enumerate().map(line).collect()
}

/// The operations of a workload whose calls and answers are `C` and `A`.
///
/// # Errors
/// When a line is of another workload.
pub fn operations<C: DeserializeOwned, A: DeserializeOwned>(lines: &[Line]) -> Result<Vec<Operation<C, A>>> {
    let mut operations: Vec<Operation<C, A>> = Vec::new();
    for line in lines {
        let Some(op) = line.number("op") else { continue };
        let at = || format!("history index {}", line.index);
        let id = usize::try_from(op)?;
        if line.kind() == "invoke" {
            let call: Map<_, _> = ["f", "value"]
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), line.body.get(*name)?.clone())))
                .collect();
            operations.push(Operation {
                id,
                process: line.number("process").with_context(at)?,
                node: line.text("node").to_owned(),
                call: serde_json::from_value(Value::Object(call)).with_context(at)?,
                outcome: Outcome::Info("it never completed".to_owned()),
                invoked_ns: line.time_ns,
                completed_ns: u64::MAX,
            });
        } else {
            let operation = operations.get_mut(id).with_context(at)?;
            let outcome = json!({"type": line.kind(), "answer": line.body.get("answer")});
            operation.outcome = serde_json::from_value(outcome).with_context(at)?;
            operation.completed_ns = line.time_ns;
        }
    }
    Ok(operations)
}

/// The faults, in the order in which they began, each as far as it got.
///
/// # Errors
/// When a line is not understood.
pub fn faults(lines: &[Line]) -> Result<Vec<Fault>> {
    let mut faults = BTreeMap::new();
    for fault in lines.iter().filter_map(|line| line.body.get("fault")) {
        let fault: Fault = serde_json::from_value(fault.clone())?;
        faults.insert(fault.began_ns, fault);
    }
    Ok(faults.into_values().collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::history::operation::Refusal;
    use crate::history::{FaultKind, Journal, Recorder};
    use crate::workload::flavor_set::{Answer, Call};

    #[test]
    fn what_was_recorded_is_read_back_and_a_torn_last_line_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let journal = Arc::new(Journal::create(&path, &json!({"seed": 7})).unwrap());
        let recorder = Recorder::<Call, Answer>::new(journal.clone());
        let first = recorder.invoke(1, "n1", Call::Add(5));
        recorder.invoke(2, "n2", Call::List);
        let refusal = Refusal { code: "unavailable".to_owned(), detail: "no leader".to_owned() };
        recorder.complete(first, Outcome::Fail(refusal));
        let mut fault = Fault { took_hold: true, ..Fault::new(FaultKind::Pause, "n1".to_owned(), true, 9) };
        journal.write(&json!({"type": "fault", "fault": fault}));
        fault.healed_ns = Some(12);
        journal.write(&json!({"type": "healed", "fault": fault}));
        let mut torn = std::fs::read_to_string(&path).unwrap();
        torn.push_str("{\"index\": 99, \"ti");
        std::fs::write(&path, torn).unwrap();

        let lines = lines(&path).unwrap();
        assert_eq!(lines[0].number("seed"), Some(7));
        assert_eq!(operations::<Call, Answer>(&lines).unwrap(), recorder.operations());
        assert_eq!(faults(&lines).unwrap(), [fault]);
    }
}
