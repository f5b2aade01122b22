//! Every filter, by what it refuses and in which words.

use holm_model::NodeId;
use holm_model::flavor::Size;
use holm_model::vm::OnNoHost;
use holm_sched::filters::{Capacity, ComputeStatus, Excluded, RequestedNode};
use holm_sched::{Controller, Facts, Filter, Host, Policy, Request};

use crate::cluster::{Cluster, HostSize, MEDIUM, SMALL_VM};

fn verdicts(cluster: &Cluster, filter: &dyn Filter, vm: holm_model::VmId) -> Vec<Result<(), String>> {
    let request = Request::new(cluster.record(vm));
    let verdict = |host: Host<'_>| {
        let verdict = filter.check(&request, &host);
        assert_eq!(filter.passes(&request, &host), verdict.is_ok(), "passes and check agree");
        verdict
    };
    cluster.state.nodes.values().map(Host::new).map(verdict).collect()
}

fn refused(message: &str) -> Result<(), String> {
    Err(message.into())
}

#[test]
fn compute_status_wants_a_node_that_is_up_and_enabled() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    cluster.set_up(2, false);
    cluster.cordon(3, "new fan");
    let vm = cluster.vm(SMALL_VM);
    let expected = [Ok(()), refused("the node is down"), refused("the node is cordoned: new fan")];
    assert_eq!(verdicts(&cluster, &ComputeStatus, vm), expected);
}

#[test]
fn compute_status_refuses_a_node_that_has_never_reported() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.done(holm_model::Command::AddNode(holm_model::command::AddNode {
        name: "late".into(),
        peer_addr: "127.0.0.1:1".into(),
        api_addr: "127.0.0.1:2".into(),
    }));
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(verdicts(&cluster, &ComputeStatus, vm), [Ok(()), refused("the node has not reported yet")]);
}

#[test]
fn requested_node_allows_the_named_one_only() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let anywhere = cluster.vm(SMALL_VM);
    let there = cluster.vm_with(SMALL_VM, Some(2), OnNoHost::Queue);
    assert_eq!(verdicts(&cluster, &RequestedNode, anywhere), [Ok(()), Ok(())]);
    assert_eq!(verdicts(&cluster, &RequestedNode, there), [refused("another node was asked for"), Ok(())]);
}

#[test]
fn excluded_keeps_a_vm_off_the_host_where_it_failed() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let vm = cluster.vm(SMALL_VM);
    let placement = holm_sched::controllers::Placement::default();
    let commands = placement.decide(&cluster.state, &Facts::default());
    cluster.carry_out(commands);
    let failed_on = cluster.record(vm).claim.as_ref().expect("it is placed").node;
    cluster.fail_build(vm, "disk full");
    for (node, verdict) in (1..).map(NodeId).zip(verdicts(&cluster, &Excluded, vm)) {
        let expected = if node == failed_on { refused("failed to build here: disk full") } else { Ok(()) };
        assert_eq!(verdict, expected);
    }
}

#[test]
fn capacity_counts_every_class_and_the_vmm_overhead() {
    // 1024 MiB and 16 MiB of overhead just fit into 1040.
    let host = HostSize { vcpus: 2, memory_mib: 1040, disk_gib: 10 };
    let vm = |vcpus, memory_mib, disk_gib| Size { vcpus, memory_mib, disk_gib };
    let cases = [
        (vm(2, 1024, 10), Ok(())),
        (vm(3, 1024, 10), refused("VCPU: 3 wanted, 2 free of 2")),
        (vm(2, 1026, 10), refused("MEMORY_MB: 1042 wanted, 1040 free of 1040")),
        (vm(2, 1024, 11), refused("DISK_GB: 11 wanted, 10 free of 10")),
        (vm(1, 16, 0), Ok(())),
    ];
    for (size, expected) in cases {
        let mut cluster = Cluster::of(&[host]);
        let vm = cluster.vm(size);
        assert_eq!(verdicts(&cluster, &Capacity, vm), [expected], "{size:?}");
    }
}

#[test]
fn the_policy_names_the_same_rule_as_apply_would() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    cluster.set_up(1, false);
    let huge = Size { vcpus: 64, memory_mib: 1024, disk_gib: 0 };
    let vm = cluster.vm_with(huge, Some(2), OnNoHost::Queue);
    let policy = Policy::default();
    let request = Request::new(cluster.record(vm));
    for node in cluster.state.nodes.values() {
        let apply = holm_model::feasible::feasible(node, cluster.record(vm), &node.allocated);
        assert_eq!(policy.check(&request, &Host::new(node)), apply, "node {}", node.id);
    }
}
