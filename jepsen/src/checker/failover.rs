//! What the operating system saw of VMs that may fail over, and of pinned ones beside them. No VM ever has two
//! processes at once. A pinned one is interrupted only by what ends its process or its host's power. One that may
//! fail over stops only where a fault hit its node within a lease before: the death of a leader elsewhere costs
//! nobody's lease. In the end each runs, once, where its record says; and some did move, or nothing was proved.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Verdict;
use crate::harness::witness::Lifetime;
use crate::history::{Fault, FaultKind};

const NAME: &str = "failover";

/// A VM as it is recorded in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub name: String,
    pub id: Uuid,
    /// Whether it may fail over.
    pub failover: bool,
    /// Where it is said to run; none: it is not said to.
    pub node: Option<String>,
}

/// How long leases last, and what is waited beyond them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    pub ttl_ms: u64,
    pub margin_ms: u64,
}

/// Judges all lifetimes. `must_move`: the faults last long enough that VMs must fail over.
pub fn check(
    lifetimes: &[Lifetime],
    faults: &[Fault],
    vms: &[Kept],
    terms: Terms,
    must_move: bool,
) -> Verdict {
    let end = lifetimes.iter().map(|life| life.until_ns).max().unwrap_or(0);
    let mut by_vm = BTreeMap::<Uuid, Vec<&Lifetime>>::new();
    lifetimes.iter().for_each(|life| by_vm.entry(life.vm).or_default().push(life));
    let mut violations = Vec::new();
    let mut gaps = Vec::new();
    let none = Vec::new();
    for vm in vms {
        let mut lives = by_vm.get(&vm.id).unwrap_or(&none).clone();
        lives.sort_by_key(|life| (life.from_ns, life.pid));
        for pair in lives.windows(2) {
            let (one, next) = (pair[0], pair[1]);
            if next.from_ns <= one.until_ns {
                let ms = (one.until_ns.min(next.until_ns) - next.from_ns) / 1_000_000;
                violations.push(format!("{} ran twice at once for {ms} ms: {}", vm.name, shown(one, next)));
            } else if !is_excused(vm, one, next.from_ns, faults, terms) {
                violations.push(format!("{} was interrupted for no reason: {}", vm.name, shown(one, next)));
            }
            if next.node != one.node {
                gaps.push((next.from_ns.saturating_sub(one.until_ns)) / 1_000_000);
            }
        }
        let alive: BTreeSet<&str> =
            lives.iter().filter(|life| life.until_ns == end).map(|life| life.node.as_str()).collect();
        if alive != vm.node.as_deref().into_iter().collect() {
            violations.push(format!(
                "in the end {} runs on {alive:?}, and is said to run on {}",
                vm.name,
                vm.node.as_deref().unwrap_or("no node")
            ));
        }
    }
    gaps.sort_unstable();
    let down = match (gaps.get(gaps.len() / 2), gaps.last()) {
        (Some(median), Some(longest)) => {
            format!(", down for {median} ms at the median, {longest} ms at most")
        }
        _ => String::new(),
    };
    let figures = format!("{} processes of {} VMs, {} moves{down}", lifetimes.len(), vms.len(), gaps.len());
    let vain = match (lifetimes.is_empty(), must_move && gaps.is_empty()) {
        (true, _) => Some("no VMM was seen"),
        (_, true) => Some("no VM failed over"),
        _ => None,
    };
    match vain {
        Some(vain) if violations.is_empty() => Verdict { figures, ..Verdict::unknown(NAME, vain) },
        _ => Verdict::of(NAME, violations, figures),
    }
}

/// Whether some fault explains that the process `one` ended and the next began at `next_ns`.
fn is_excused(vm: &Kept, one: &Lifetime, next_ns: u64, faults: &[Fault], terms: Terms) -> bool {
    let lease_ns = (terms.ttl_ms + terms.margin_ms) * 1_000_000;
    faults.iter().any(|fault| {
        let meanwhile = |before_ns: u64| {
            fault.began_ns < next_ns
                && fault.healed_ns.is_none_or(|healed| healed.saturating_add(before_ns) > one.until_ns)
        };
        if fault.vms.contains(&vm.id) {
            return meanwhile(0);
        }
        if !fault.node.split(',').any(|node| node == one.node) {
            return false;
        }
        match fault.kind {
            FaultKind::PowerOne
            | FaultKind::PowerMost
            | FaultKind::PowerAll
            | FaultKind::PartitionPower
            | FaultKind::KillHost => meanwhile(0),
            // The lease ends, at the latest a ttl after it was last renewed.
            _ => vm.failover && meanwhile(lease_ns),
        }
    })
}

fn shown(one: &Lifetime, next: &Lifetime) -> String {
    let ms = |ns: u64| ns / 1_000_000;
    format!(
        "process {} on {} ({}–{} ms), process {} on {} (from {} ms)",
        one.pid,
        one.node,
        ms(one.from_ns),
        ms(one.until_ns),
        next.pid,
        next.node,
        ms(next.from_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, testing};
    use super::*;

    const S: u64 = 1_000_000_000;
    const TERMS: Terms = Terms { ttl_ms: 8_000, margin_ms: 2_000 };

    fn life(node: &str, pid: i32, from_s: u64, until_s: u64) -> Lifetime {
        testing::life(1, node, pid, (from_s * S, until_s * S))
    }

    fn vm(failover: bool, node: &str) -> [Kept; 1] {
        [Kept { name: "a".into(), id: Uuid::from_u128(1), failover, node: Some(node.into()) }]
    }

    fn fault(kind: FaultKind, node: &str, from_s: u64, until_s: u64) -> [Fault; 1] {
        let mut fault = Fault::new(kind, node.into(), false, from_s * S);
        fault.healed_ns = Some(until_s * S);
        [fault]
    }

    fn moved(gap: u64) -> Vec<Lifetime> {
        vec![life("n1", 7, 0, 30), life("n2", 8, 30 + gap, 90)]
    }

    fn valid(lives: &[Lifetime], faults: &[Fault], vms: &[Kept]) -> bool {
        check(lives, faults, vms, TERMS, false).is_valid()
    }

    #[test]
    fn a_vm_that_stops_with_the_lease_of_its_paused_node_and_runs_on_elsewhere_is_valid() {
        assert!(valid(&moved(3), &fault(FaultKind::Pause, "n1", 21, 40), &vm(true, "n2")));
    }

    #[test]
    fn two_at_once_are_invalid_whatever_happened() {
        let lives = [life("n1", 7, 0, 34), life("n2", 8, 33, 90)];
        for failover in [true, false] {
            assert!(!valid(&lives, &fault(FaultKind::PowerOne, "n1", 21, 40), &vm(failover, "n2")));
        }
    }

    #[test]
    fn a_pinned_vm_is_interrupted_by_power_only() {
        let lives = [life("n1", 7, 0, 30), life("n1", 8, 33, 90)];
        assert!(valid(&lives, &fault(FaultKind::PowerOne, "n1", 29, 40), &vm(false, "n1")));
        for kind in [FaultKind::Pause, FaultKind::Kill, FaultKind::PartitionLeader] {
            assert!(!valid(&lives, &fault(kind, "n1", 21, 40), &vm(false, "n1")), "{kind:?}");
        }
        let mut killed = fault(FaultKind::KillVmm, "n1", 29, 40);
        assert!(!valid(&lives, &killed, &vm(false, "n1")));
        killed[0].vms = vec![Uuid::from_u128(1)];
        assert!(valid(&lives, &killed, &vm(false, "n1")));
    }

    #[test]
    fn a_fault_elsewhere_or_long_over_explains_nothing() {
        assert!(!valid(&moved(3), &fault(FaultKind::Restart, "n3", 21, 40), &vm(true, "n2")));
        assert!(!valid(&moved(3), &fault(FaultKind::Pause, "n1", 5, 15), &vm(true, "n2")));
        assert!(!valid(&moved(3), &[], &vm(true, "n2")));
    }

    #[test]
    fn in_the_end_it_runs_where_its_record_says() {
        let faults = fault(FaultKind::Pause, "n1", 21, 40);
        assert!(!valid(&moved(3), &faults, &vm(true, "n1")));
        let gone = [Kept { node: None, ..vm(true, "n2")[0].clone() }];
        assert!(!valid(&moved(3), &faults, &gone));
    }

    #[test]
    fn where_nothing_moved_nothing_is_proved() {
        let still = [life("n1", 7, 0, 90)];
        let judged = check(&still, &[], &vm(true, "n1"), TERMS, true);
        assert!(matches!(judged.finding, Finding::Unknown(_)));
        assert!(check(&still, &[], &vm(true, "n1"), TERMS, false).is_valid());
    }
}
