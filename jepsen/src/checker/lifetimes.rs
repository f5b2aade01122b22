//! What the operating system saw of the VMMs: no VM has two processes at once, on one node or on two; none is
//! interrupted but by the power of its node; and at the end every VM that is called ACTIVE has one process, on
//! the node that its record names.

use std::collections::{BTreeMap, BTreeSet};

use holm_api::{Vm, VmStatus};
use uuid::Uuid;

use super::Verdict;
use crate::harness::witness::Lifetime;
use crate::history::{Fault, FaultKind};
use crate::workload::power;

const NAME: &str = "lifetimes";

/// Judges lifetimes; `vms` are the records at the moment of the last look. VMs that were stopped, started and
/// rebooted on request have several, one after another.
pub fn check(lifetimes: &[Lifetime], faults: &[Fault], vms: &[Vm]) -> Verdict {
    let active = vms.iter().filter(|vm| vm.status == VmStatus::Active);
    let active: Vec<_> =
        active.map(|vm| (vm.name.clone(), vm.id, vm.node.clone().unwrap_or_default())).collect();
    let busy = vms.iter().filter(|vm| vm.name.starts_with(power::PREFIX)).map(|vm| vm.id).collect();
    judge(lifetimes, faults, &active, &busy)
}

fn judge(
    lifetimes: &[Lifetime],
    faults: &[Fault],
    active: &[(String, Uuid, String)],
    busy: &BTreeSet<Uuid>,
) -> Verdict {
    if lifetimes.is_empty() {
        return Verdict::unknown(NAME, "no VMM was seen");
    }
    let mut by_vm = BTreeMap::<Uuid, Vec<&Lifetime>>::new();
    lifetimes.iter().for_each(|lifetime| by_vm.entry(lifetime.vm).or_default().push(lifetime));
    let mut violations = Vec::new();
    for lives in by_vm.values_mut() {
        lives.sort_by_key(|lifetime| (lifetime.from_ns, lifetime.pid));
        for pair in lives.windows(2) {
            let (one, next) = (pair[0], pair[1]);
            let shown = format!(
                "{}: process {} on {} ({}–{} ms), process {} on {} (from {} ms)",
                one.vm,
                one.pid,
                one.node,
                one.from_ns / 1_000_000,
                one.until_ns / 1_000_000,
                next.pid,
                next.node,
                next.from_ns / 1_000_000
            );
            if next.from_ns <= one.until_ns {
                violations.push(format!("ran twice at once: {shown}"));
            } else if !busy.contains(&one.vm) && !power_went(faults, &one.node, one.from_ns, next.from_ns) {
                violations.push(format!("was interrupted although nothing cut its power: {shown}"));
            }
        }
    }
    let end = lifetimes.iter().map(|lifetime| lifetime.until_ns).max().unwrap_or(0);
    for (name, id, node) in active {
        let runs = by_vm.get(id).into_iter().flatten().any(|one| one.until_ns == end && one.node == *node);
        if !runs {
            violations.push(format!("{name} ({id}) is ACTIVE on {node}, where no process of it runs"));
        }
    }
    Verdict::of(NAME, violations, format!("{} VMMs of {} VMs", lifetimes.len(), by_vm.len()))
}

fn power_went(faults: &[Fault], node: &str, from_ns: u64, until_ns: u64) -> bool {
    faults.iter().any(|fault| {
        use FaultKind::{KillHost, PartitionPower, PowerAll, PowerMost, PowerOne};
        matches!(fault.kind, KillHost | PartitionPower | PowerOne | PowerMost | PowerAll)
            && fault.node.split(',').any(|hit| hit == node)
            // It goes some time after the fault began and before it was healed.
            && fault.began_ns < until_ns
            && fault.healed_ns.is_none_or(|healed_ns| healed_ns > from_ns)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn judge(lives: &[Lifetime], faults: &[Fault], active: &[(String, Uuid, String)]) -> Verdict {
        super::judge(lives, faults, active, &BTreeSet::new())
    }

    fn life(vm: u128, node: &str, pid: i32, from_ns: u64, until_ns: u64) -> Lifetime {
        testing::life(vm, node, pid, (from_ns, until_ns))
    }

    fn power(node: &str, began_ns: u64) -> Fault {
        Fault {
            took_hold: true,
            healed_ns: Some(began_ns + 30),
            ..Fault::new(FaultKind::PowerAll, node.into(), true, began_ns)
        }
    }

    #[test]
    fn one_process_and_one_more_after_the_power_came_back_are_valid() {
        let lives = [life(1, "n1", 7, 10, 20), life(1, "n1", 8, 40, 90), life(2, "n2", 9, 10, 90)];
        let active = [("a".to_owned(), Uuid::from_u128(1), "n1".to_owned())];
        assert!(judge(&lives, &[power("n1,n2", 15)], &active).is_valid());
    }

    #[test]
    fn two_at_once_on_one_node_or_on_two_are_invalid() {
        for other in ["n1", "n2"] {
            let lives = [life(1, "n1", 7, 10, 20), life(1, other, 8, 20, 90)];
            assert!(!judge(&lives, &[power("n1", 12)], &[]).is_valid(), "{other}");
        }
    }

    #[test]
    fn an_interruption_without_a_power_cut_of_that_node_is_invalid() {
        let lives = [life(1, "n1", 7, 10, 20), life(1, "n1", 8, 40, 90)];
        assert!(!judge(&lives, &[], &[]).is_valid());
        assert!(!judge(&lives, &[power("n2", 15)], &[]).is_valid());
        assert!(!judge(&lives, &[power("n1", 50)], &[]).is_valid());
    }

    #[test]
    fn a_vm_called_active_without_a_process_where_it_is_said_to_be_is_invalid() {
        let lives = [life(1, "n1", 7, 10, 20), life(2, "n1", 8, 10, 90)];
        let active = |vm, node: &str| [("a".to_owned(), Uuid::from_u128(vm), node.to_owned())];
        assert!(!judge(&lives, &[], &active(1, "n1")).is_valid());
        assert!(!judge(&lives, &[], &active(2, "n2")).is_valid());
        assert!(judge(&lives, &[], &active(2, "n1")).is_valid());
    }

    #[test]
    fn what_is_rebooted_on_request_still_never_runs_twice_at_once() {
        let busy = BTreeSet::from([Uuid::from_u128(1)]);
        let lives = |from| [life(1, "n1", 7, 10, 20), life(1, "n1", 8, from, 90)];
        assert!(super::judge(&lives(21), &[], &[], &busy).is_valid());
        assert!(!super::judge(&lives(20), &[], &[], &busy).is_valid());
    }

    #[test]
    fn seeing_nothing_proves_nothing() {
        assert!(!judge(&[], &[], &[]).is_valid());
    }
}
