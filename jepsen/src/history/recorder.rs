//! Pairs beginnings with outcomes, and writes both to the journal at once.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use super::journal::Journal;
use super::operation::{Operation, Outcome};

/// Records the operations of one workload; shared by its clients.
#[derive(Debug)]
pub struct Recorder<C, A> {
    pub journal: Arc<Journal>,
    operations: Mutex<Vec<Operation<C, A>>>,
}

#[derive(Serialize)]
struct Invocation<'a, C> {
    #[serde(rename = "type")]
    kind: &'static str,
    op: usize,
    process: u64,
    node: &'a str,
    #[serde(flatten)]
    call: &'a C,
}

#[derive(Serialize)]
struct Completion<'a, A> {
    op: usize,
    process: u64,
    #[serde(flatten)]
    outcome: &'a Outcome<A>,
}

impl<C: Clone + Serialize, A: Clone + Serialize> Recorder<C, A> {
    pub fn new(journal: Arc<Journal>) -> Self {
        Self { journal, operations: Mutex::new(Vec::new()) }
    }

    /// An operation is about to begin. Until it completes its outcome is unknown.
    pub fn invoke(&self, process: u64, node: &str, call: C) -> usize {
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let id = operations.len();
        let invocation = Invocation { kind: "invoke", op: id, process, node, call: &call };
        let invoked_ns = self.journal.write(&invocation);
        operations.push(Operation {
            id,
            process,
            node: node.to_owned(),
            call,
            outcome: Outcome::Info("it never completed".to_owned()),
            invoked_ns,
            completed_ns: u64::MAX,
        });
        id
    }

    /// It has completed, as far as its client will ever know.
    ///
    /// # Panics
    /// When `id` was never invoked.
    pub fn complete(&self, id: usize, outcome: Outcome<A>) {
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let operation = &mut operations[id];
        let completion = Completion { op: id, process: operation.process, outcome: &outcome };
        operation.completed_ns = self.journal.write(&completion);
        operation.outcome = outcome;
    }

    /// Everything recorded so far, by the order of their beginning.
    pub fn operations(&self) -> Vec<Operation<C, A>> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize)]
    #[serde(tag = "f", content = "value")]
    enum Call {
        Write(u32),
    }

    #[test]
    fn beginnings_and_outcomes_are_written_at_once_and_paired() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let journal = Journal::create(&path, &serde_json::json!({"seed": 7})).unwrap();
        let recorder = Recorder::<Call, bool>::new(Arc::new(journal));
        let first = recorder.invoke(1, "n1", Call::Write(5));
        let second = recorder.invoke(2, "n2", Call::Write(6));
        recorder.complete(second, Outcome::Ok(true));
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["seed"], 7);
        assert_eq!(
            (&lines[1]["type"], &lines[1]["f"], &lines[1]["value"]),
            (&"invoke".into(), &"Write".into(), &5.into())
        );
        assert_eq!((&lines[3]["type"], &lines[3]["op"]), (&"ok".into(), &1.into()));
        let operations = recorder.operations();
        assert!(operations[first].outcome.is_info());
        assert_eq!(operations[first].completed_ns, u64::MAX);
        assert!(operations[second].completed_ns >= operations[second].invoked_ns);
    }
}
