//! After healing, at every node: a VM whose create was acknowledged exists exactly once, unless its delete
//! was acknowledged or is unknown; one whose delete was acknowledged is gone; one whose every create was
//! refused does not exist (so nothing unknown was called failed); and nothing exists that nobody asked for.

use std::collections::BTreeMap;

use super::Verdict;
use crate::workload::vm_lifecycle::{Call, Operation};

const NAME: &str = "acknowledged";

/// The VMs one node shows, by name and id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub node: String,
    pub vms: Vec<(String, String)>,
}

/// What all attempts at one request together mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// Nobody asked.
    #[default]
    Never,
    /// Every attempt was refused or not sent.
    Refused,
    Unknown,
    Acknowledged,
}

impl Known {
    /// Of one more attempt.
    fn and(self, operation: &Operation) -> Self {
        self.max(match &operation.outcome {
            crate::history::Outcome::Ok(_) => Self::Acknowledged,
            crate::history::Outcome::Info(_) => Self::Unknown,
            crate::history::Outcome::Fail(_) => Self::Refused,
        })
    }
}

/// By VM name: what is known of its create and of its delete.
pub fn known(operations: &[Operation]) -> BTreeMap<&str, (Known, Known)> {
    let mut known = BTreeMap::<&str, (Known, Known)>::new();
    for operation in operations {
        let (create, delete) = known.entry(operation.call.name()).or_default();
        match operation.call {
            Call::Create { .. } => *create = create.and(operation),
            Call::Delete { .. } => *delete = delete.and(operation),
            Call::Replay { .. } | Call::Read { .. } => {}
        }
    }
    known
}

/// Judges the final views.
pub fn check(operations: &[Operation], views: &[View]) -> Verdict {
    if views.is_empty() {
        return Verdict::unknown(NAME, "no node was looked at");
    }
    let known = known(operations);
    let mut violations = Vec::new();
    for view in views {
        let mut there = BTreeMap::<&str, usize>::new();
        view.vms.iter().for_each(|(name, _)| *there.entry(name).or_default() += 1);
        for (name, (create, delete)) in &known {
            let count = there.remove(name).unwrap_or(0);
            if let Some(rule) = broken(*create, *delete, count) {
                let shown = operations.iter().filter(|operation| operation.call.name() == *name);
                let shown: Vec<_> = shown.map(|operation| format!("op {}", operation.id)).collect();
                violations.push(format!("{} at {}: {rule} ({})", name, view.node, shown.join(", ")));
            }
        }
        violations.extend(there.keys().map(|name| format!("{name} at {}: nobody asked for it", view.node)));
    }
    let count = |wanted: &dyn Fn(&(Known, Known)) -> bool| known.values().filter(|of| wanted(of)).count();
    let figures = format!(
        "{} creates acknowledged, {} unknown, {} refused; {} deletes acknowledged, {} unknown; {} VMs left",
        count(&|of| of.0 == Known::Acknowledged),
        count(&|of| of.0 == Known::Unknown),
        count(&|of| of.0 == Known::Refused),
        count(&|of| of.1 == Known::Acknowledged),
        count(&|of| of.1 == Known::Unknown),
        views[0].vms.len(),
    );
    Verdict::of(NAME, violations, figures)
}

fn broken(create: Known, delete: Known, count: usize) -> Option<String> {
    match (create, delete, count) {
        (_, _, 2..) => Some(format!("exists {count} times")),
        (_, Known::Acknowledged, 1) => Some("its delete was acknowledged, and it is there".to_owned()),
        (Known::Acknowledged, Known::Never | Known::Refused, 0) => {
            Some("its create was acknowledged, and it is not there".to_owned())
        }
        (Known::Refused | Known::Never, _, 1) => Some("every create was refused, and it is there".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn view(names: &[&str]) -> Vec<View> {
        let vms = names.iter().enumerate().map(|(id, name)| ((*name).to_owned(), id.to_string())).collect();
        vec![View { node: "n1".into(), vms }]
    }

    #[test]
    fn what_the_rule_allows_is_valid() {
        let operations = history(vec![
            (create("kept"), created(1)),
            (create("maybe"), unknown()),
            (create("gone"), unknown()),
            (create("gone"), created(2)),
            (delete("gone"), deleted()),
            (create("half-gone"), created(3)),
            (delete("half-gone"), unknown()),
            (create("refused"), refused("unavailable")),
        ]);
        assert!(check(&operations, &view(&["kept"])).is_valid());
        assert!(check(&operations, &view(&["kept", "maybe", "half-gone"])).is_valid());
    }

    #[test]
    fn an_acknowledged_create_that_is_lost_is_invalid() {
        assert!(!check(&history(vec![(create("a"), created(1))]), &view(&[])).is_valid());
    }

    #[test]
    fn a_refused_delete_does_not_excuse_a_lost_create() {
        let operations = history(vec![(create("a"), created(1)), (delete("a"), refused("unavailable"))]);
        assert!(!check(&operations, &view(&[])).is_valid());
    }

    #[test]
    fn a_vm_that_exists_twice_is_invalid() {
        let operations = history(vec![(create("a"), unknown()), (create("a"), created(1))]);
        assert!(!check(&operations, &view(&["a", "a"])).is_valid());
    }

    #[test]
    fn an_acknowledged_delete_that_comes_back_is_invalid() {
        let operations = history(vec![(create("a"), created(1)), (delete("a"), deleted())]);
        assert!(!check(&operations, &view(&["a"])).is_valid());
    }

    #[test]
    fn an_unknown_create_counted_as_failed_is_invalid() {
        let operations = history(vec![(create("a"), refused("unavailable"))]);
        assert!(!check(&operations, &view(&["a"])).is_valid());
    }

    #[test]
    fn a_vm_nobody_asked_for_is_invalid() {
        assert!(!check(&history(vec![(create("a"), created(1))]), &view(&["a", "b"])).is_valid());
    }

    #[test]
    fn one_node_that_differs_is_enough() {
        let operations = history(vec![(create("a"), created(1))]);
        assert!(!check(&operations, &[view(&["a"]), view(&[])].concat()).is_valid());
    }

    #[test]
    fn without_a_view_nothing_is_known() {
        assert!(!check(&history(vec![(create("a"), created(1))]), &[]).is_valid());
    }
}
