//! The workload did something: every kind of operation succeeded at least once, at every node that was to
//! serve it. Otherwise the run proves nothing.

use std::collections::BTreeMap;

use super::Verdict;
use crate::history::Operation;

const NAME: &str = "vacuity";

/// Judges by kind of operation: `kinds` must each have succeeded, through each of `nodes`.
pub fn check<C, A>(
    operations: &[Operation<C, A>],
    kind: impl Fn(&C) -> &'static str,
    kinds: &[&'static str],
    nodes: &[String],
) -> Verdict {
    let mut succeeded = BTreeMap::<&str, u64>::new();
    let mut through = BTreeMap::<&str, u64>::new();
    let (mut failed, mut unknown) = (0, 0);
    for operation in operations {
        match &operation.outcome {
            crate::history::Outcome::Ok(_) => {
                *succeeded.entry(kind(&operation.call)).or_default() += 1;
                *through.entry(&operation.node).or_default() += 1;
            }
            crate::history::Outcome::Fail(_) => failed += 1,
            crate::history::Outcome::Info(_) => unknown += 1,
        }
    }
    let done: Vec<_> =
        kinds.iter().map(|kind| format!("{kind} {}", succeeded.get(kind).unwrap_or(&0))).collect();
    let figures = format!("succeeded: {}; failed {failed}, unknown {unknown}", done.join(", "));
    let never =
        kinds.iter().find(|kind| !succeeded.contains_key(**kind)).map(|kind| format!("no {kind} succeeded"));
    let silent = nodes.iter().find(|node| !through.contains_key(node.as_str()));
    match never.or(silent.map(|node| format!("nothing succeeded through {node}"))) {
        Some(vain) => Verdict { figures, ..Verdict::unknown(NAME, vain) },
        None => Verdict::of(NAME, Vec::new(), figures),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::workload::vm_lifecycle::Call;

    fn kind(call: &Call) -> &'static str {
        match call {
            Call::Create { .. } | Call::Replay { .. } => "create",
            Call::Delete { .. } => "delete",
            Call::Read { .. } => "read",
        }
    }

    #[test]
    fn a_run_in_which_a_kind_never_succeeded_is_rejected() {
        let operations = history(vec![(create("a"), created(1)), (delete("a"), refused("unavailable"))]);
        assert!(check(&operations, kind, &["create"], &[]).is_valid());
        assert!(!check(&operations, kind, &["create", "delete"], &[]).is_valid());
    }

    #[test]
    fn a_run_in_which_a_node_never_served_is_rejected() {
        let operations = history(vec![(create("a"), created(1))]);
        assert!(check(&operations, kind, &["create"], &["n1".into()]).is_valid());
        assert!(!check(&operations, kind, &["create"], &["n1".into(), "n2".into()]).is_valid());
    }
}
