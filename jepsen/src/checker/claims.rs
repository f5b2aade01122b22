//! No claim leaks and none is missing: what each node counts as used is the sum over the VMs it holds, and
//! never more than its capacity.

use std::collections::BTreeMap;

use holm_api::{Node, Vm};

use super::Verdict;

const NAME: &str = "claims";

/// What one node counts of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Count {
    node: String,
    used: u64,
    capacity: u64,
    /// Sum over the VMs it holds.
    held: u64,
}

/// Judges nodes and VMs read from one state.
pub fn check(nodes: &[Node], vms: &[Vm]) -> Verdict {
    let mut held = BTreeMap::<&str, u64>::new();
    for vm in vms {
        if let Some(node) = &vm.node {
            *held.entry(node).or_default() += u64::from(vm.flavor.vcpus);
        }
    }
    let counts = nodes.iter().filter_map(|node| {
        let vcpu = node.inventory.get("VCPU")?;
        let held = held.get(node.name.as_str()).copied().unwrap_or(0);
        Some(Count { node: node.name.clone(), used: vcpu.used, capacity: vcpu.capacity, held })
    });
    let counts: Vec<_> = counts.collect();
    if counts.len() != nodes.len() || counts.is_empty() {
        return Verdict::unknown(NAME, "a node has no inventory");
    }
    judge(&counts)
}

fn judge(counts: &[Count]) -> Verdict {
    let mut violations = Vec::new();
    for Count { node, used, capacity, held } in counts {
        if used != held {
            violations.push(format!("{node} counts {used} vCPUs as used, its VMs have {held}"));
        }
        if used > capacity {
            violations.push(format!("{node} has claims on {used} vCPUs of {capacity}"));
        }
    }
    let used: Vec<_> = counts.iter().map(|count| format!("{} {}", count.node, count.used)).collect();
    Verdict::of(NAME, violations, format!("vCPUs in use: {}", used.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(used: u64, held: u64) -> Count {
        Count { node: "n1".into(), used, capacity: 8, held }
    }

    #[test]
    fn equal_sums_within_capacity_are_valid() {
        assert!(judge(&[count(3, 3), count(0, 0), count(8, 8)]).is_valid());
    }

    #[test]
    fn a_leaked_claim_a_missing_one_and_one_too_many_are_invalid() {
        assert!(!judge(&[count(3, 2)]).is_valid());
        assert!(!judge(&[count(2, 3)]).is_valid());
        assert!(!judge(&[count(9, 9)]).is_valid());
    }
}
