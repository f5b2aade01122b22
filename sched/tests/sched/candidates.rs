//! What a question demands of hosts beside a VM's own record, as Placement's query for allocation candidates does:
//! <https://docs.openstack.org/api-ref/placement/#list-allocation-candidates>.

use std::collections::BTreeSet;

use holm_model::flavor::Size;
use holm_model::resources::InventoryOverride;
use holm_model::{NodeId, ResourceClass};
use holm_sched::candidates::Demand;
use holm_sched::explain::Verdict;
use holm_sched::{Batch, Policy, explain};

use crate::cluster::{Cluster, MEDIUM};

const NOTHING: Size = Size { vcpus: 0, memory_mib: 0, disk_gib: 0 };

fn any(traits: &[&str]) -> Demand {
    Demand::AnyTrait(traits.iter().map(|name| (*name).to_owned()).collect())
}

fn no(name: &str) -> Demand {
    Demand::NoTrait(name.to_owned())
}

/// n1 has CUSTOM_SSD; n2 CUSTOM_SSD and CUSTOM_GPU; n3 CUSTOM_GPU; n4 nothing. In aggregate `a1` are n1 and n2, in `a2` n2 and n3.
fn cluster() -> Cluster {
    let mut cluster = Cluster::of(&[MEDIUM; 4]);
    for (n, traits) in
        [(1, vec!["CUSTOM_SSD"]), (2, vec!["CUSTOM_SSD", "CUSTOM_GPU"]), (3, vec!["CUSTOM_GPU"])]
    {
        cluster.update(n, |update| update.traits = Some(traits.into_iter().map(str::to_owned).collect()));
    }
    cluster.aggregate(1, &[1, 2], &[]);
    cluster.aggregate(2, &[2, 3], &[]);
    cluster
}

/// The nodes that would take a small VM, and what is said of the others.
fn asked(cluster: &mut Cluster, demands: Vec<Demand>) -> (BTreeSet<u64>, Vec<String>) {
    let vm = cluster.vm(Size { vcpus: 1, memory_mib: 64, disk_gib: 1 });
    let policy = Policy::of(&cluster.state.scheduler).demanding(demands);
    let explained = explain(&cluster.state, &policy, cluster.record(vm));
    cluster.delete(vm);
    let (mut fit, mut words) = (BTreeSet::new(), Vec::new());
    for host in explained.hosts {
        match host.verdict {
            Verdict::Fits { .. } => _ = fit.insert(host.node.0),
            Verdict::Refused { by, message, .. } => words.push(format!("{} {by}: {message}", host.name)),
        }
    }
    (fit, words)
}

#[test]
fn traits_are_required_forbidden_or_one_of_several() {
    let mut cluster = cluster();
    for (demands, fit) in [
        (vec![], vec![1, 2, 3, 4]),
        // `required=CUSTOM_SSD`
        (vec![any(&["CUSTOM_SSD"])], vec![1, 2]),
        // `required=CUSTOM_SSD,CUSTOM_GPU`: all of them.
        (vec![any(&["CUSTOM_SSD"]), any(&["CUSTOM_GPU"])], vec![2]),
        // `required=in:CUSTOM_SSD,CUSTOM_GPU`: at least one.
        (vec![any(&["CUSTOM_SSD", "CUSTOM_GPU"])], vec![1, 2, 3]),
        // `required=!CUSTOM_GPU`
        (vec![no("CUSTOM_GPU")], vec![1, 4]),
        // `required=CUSTOM_SSD,!CUSTOM_GPU`
        (vec![any(&["CUSTOM_SSD"]), no("CUSTOM_GPU")], vec![1]),
        // `required=in:CUSTOM_SSD,CUSTOM_GPU&required=!CUSTOM_GPU`
        (vec![any(&["CUSTOM_SSD", "CUSTOM_GPU"]), no("CUSTOM_GPU")], vec![1]),
        // Nobody has it.
        (vec![any(&["PIANO"])], vec![]),
        (vec![no("PIANO")], vec![1, 2, 3, 4]),
    ] {
        assert_eq!(asked(&mut cluster, demands.clone()).0, fit.into_iter().collect(), "{demands:?}");
    }
    let (_, words) = asked(&mut cluster, vec![any(&["CUSTOM_SSD", "CUSTOM_GPU"]), no("CUSTOM_GPU")]);
    assert_eq!(
        words,
        [
            "n2 Traits: trait `CUSTOM_GPU`: forbidden, the node has it",
            "n3 Traits: trait `CUSTOM_GPU`: forbidden, the node has it",
            "n4 Traits: traits: one of `CUSTOM_SSD`, `CUSTOM_GPU` required, the node has none",
        ]
    );
}

#[test]
fn hosts_are_members_of_aggregates_or_of_none() {
    let mut cluster = cluster();
    let aggregates: Vec<_> = cluster.state.aggregates.values().cloned().collect();
    let of = |at: &[usize]| at.iter().map(|at| &aggregates[*at]).collect();
    for (demands, fit) in [
        // `member_of=a`
        (vec![Demand::AnyAggregate(of(&[0]))], vec![1, 2]),
        // `member_of=in:a,b`
        (vec![Demand::AnyAggregate(of(&[0, 1]))], vec![1, 2, 3]),
        // `member_of=a&member_of=b`
        (vec![Demand::AnyAggregate(of(&[0])), Demand::AnyAggregate(of(&[1]))], vec![2]),
        // `member_of=!a`
        (vec![Demand::NoAggregate(of(&[0]))], vec![3, 4]),
        // `member_of=!in:a,b`
        (vec![Demand::NoAggregate(of(&[0, 1]))], vec![4]),
        // `member_of=a&member_of=!b`
        (vec![Demand::AnyAggregate(of(&[0])), Demand::NoAggregate(of(&[1]))], vec![1]),
    ] {
        assert_eq!(asked(&mut cluster, demands.clone()).0, fit.into_iter().collect(), "{demands:?}");
    }
    let (_, words) = asked(&mut cluster, vec![Demand::AnyAggregate(of(&[0]))]);
    let name = &aggregates[0].name;
    let expected: Vec<_> =
        [3, 4].map(|n| format!("n{n} MemberOf: aggregate `{name}`: the node is not in it")).into();
    assert_eq!(words, expected);
}

/// A question about one class asks for no memory: steps of memory do not keep it off, and only what the VMM needs is
/// taken.
#[test]
fn a_question_about_one_class_meets_no_unit_of_another() {
    let mut cluster = cluster();
    let gpu = ResourceClass::Custom("CUSTOM_GPU".to_owned());
    let of = |total| Some(InventoryOverride { total, ..InventoryOverride::default() });
    let steps = Some(InventoryOverride {
        min_unit: Some(1024),
        step_size: Some(1024),
        ..InventoryOverride::default()
    });
    cluster
        .update(2, |update| update.inventory = [(gpu, of(Some(3))), (ResourceClass::MemoryMb, steps)].into());
    let vm = cluster.vm_of(&[("resources:CUSTOM_GPU", "1")]);
    let mut vm = cluster.record(vm).clone();
    vm.spec.size = NOTHING;
    let policy = Policy::of(&cluster.state.scheduler);
    let explained = explain(&cluster.state, &policy, &vm);
    assert_eq!(explained.best, Some(NodeId(2)));
    assert_eq!(Batch::new(&cluster.state, &policy).fill(&vm, NodeId(2), 1000), 3);
    let message = "CUSTOM_GPU: the node has none".to_owned();
    let refused = Verdict::Refused { by: "Capacity".into(), message, also: Vec::new() };
    assert_eq!(explained.hosts[0].verdict, refused);
}
