//! What a node's conditions do to placement: some refuse, all make it less liked, none touches what runs.

use std::collections::BTreeMap;

use holm_model::command::ReportNode;
use holm_model::condition::{IDENTITY_CLONED, INVENTORY_BELOW_ALLOCATIONS, REFUSING};
use holm_model::node::{Condition, Node};
use holm_model::vm::VmStatus;
use holm_model::{BootId, Command, NodeId, Outcome, Reply, Timestamp};
use uuid::Uuid;

use crate::cluster::{Cluster, HostSize, MEDIUM, SMALL_VM};

fn sick(cluster: &mut Cluster, n: u64, names: &[&str]) {
    let condition = Condition { since: Timestamp(1), message: "as a test says".into() };
    let conditions = names.iter().map(|name| ((*name).to_owned(), condition.clone())).collect();
    cluster.report_with(n, |report| report.conditions = conditions);
}

fn node(cluster: &Cluster, n: u64) -> &Node {
    &cluster.state.nodes[&NodeId(n)]
}

#[test]
fn a_node_with_any_condition_comes_last_and_is_used_when_no_other_fits() {
    let far_bigger = HostSize { vcpus: 64, memory_mib: 65_536, disk_gib: 1000 };
    let mut cluster = Cluster::of(&[far_bigger, HostSize { vcpus: 1, memory_mib: 2048, disk_gib: 10 }]);
    sick(&mut cluster, 1, &["NicDown"]);
    let (first, second) = (cluster.vm(SMALL_VM), cluster.vm(SMALL_VM));
    assert_eq!(cluster.placed_on(first), Some(2));
    cluster.run(first);
    assert_eq!(cluster.placed_on(second), Some(1), "the healthy one is full");
}

#[test]
fn conditions_under_which_a_vm_would_fail_refuse_in_their_own_words() {
    for name in REFUSING {
        let mut cluster = Cluster::of(&[MEDIUM; 2]);
        sick(&mut cluster, 1, &[name]);
        let refused = holm_model::feasible::compute_status(node(&cluster, 1));
        assert_eq!(refused, Err(format!("{name}: as a test says")));
        sick(&mut cluster, 1, &[]);
        assert_eq!(holm_model::feasible::compute_status(node(&cluster, 1)), Ok(()), "it clears itself");
    }
}

#[test]
fn a_host_that_lost_memory_keeps_its_vms_and_gets_no_more() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(cluster.placed_on(vm), Some(1));
    cluster.run(vm);
    cluster.now = Timestamp(2_000_000);
    cluster.report(1, HostSize { memory_mib: 512, ..MEDIUM });
    let found = node(&cluster, 1).findings[INVENTORY_BELOW_ALLOCATIONS].clone();
    assert_eq!(found.since, Timestamp(2_000_000));
    assert!(found.message.starts_with("MEMORY_MB: 1040 claimed, 512 there"), "{}", found.message);
    let record = &cluster.state.vms[&vm];
    assert_eq!((record.status, record.claim.is_some()), (VmStatus::Active, true));
    let next = cluster.vm(SMALL_VM);
    assert_eq!(cluster.placed_on(next), None);

    cluster.now = Timestamp(3_000_000);
    cluster.report(1, HostSize { memory_mib: 400, ..MEDIUM });
    assert_eq!(node(&cluster, 1).findings[INVENTORY_BELOW_ALLOCATIONS].since, Timestamp(2_000_000));
    cluster.report(1, MEDIUM);
    assert_eq!(node(&cluster, 1).findings, BTreeMap::new(), "the memory is back");
    assert_eq!(cluster.placed_on(next), Some(1));
}

/// A report of node 1 as another boot of its host makes it.
fn report_of(cluster: &mut Cluster, boot: u128, sequence: u64) -> Reply {
    let record = node(cluster, 1);
    let mut report = record.report.clone().unwrap();
    report.boot_id = BootId(Uuid::from_u128(boot));
    let (peer_addr, api_addr) = (record.peer_addr.clone(), record.api_addr.clone());
    cluster.apply(Command::ReportNode(ReportNode { node: NodeId(1), sequence, peer_addr, api_addr, report }))
}

#[test]
fn two_hosts_that_take_turns_as_one_node_are_found_out() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    report_of(&mut cluster, 77, 5);
    assert!(node(&cluster, 1).findings.is_empty(), "a reboot is no clone");
    report_of(&mut cluster, 78, 6);
    let before = node(&cluster, 1).report.clone();
    let Reply::Done(done) = report_of(&mut cluster, 77, 9) else { panic!("noted") };
    assert_eq!(done.outcome, Outcome::OtherHost(NodeId(1)));
    assert_eq!(node(&cluster, 1).report, before, "what the other one says is not taken");
    let since = node(&cluster, 1).findings[IDENTITY_CLONED].since;

    cluster.now = Timestamp(since.0 + 59_000);
    report_of(&mut cluster, 78, 7);
    assert!(node(&cluster, 1).findings.contains_key(IDENTITY_CLONED));
    report_of(&mut cluster, 77, 10);
    cluster.now = Timestamp(since.0 + 118_000);
    report_of(&mut cluster, 78, 8);
    let found = node(&cluster, 1).findings.get(IDENTITY_CLONED);
    assert_eq!(found.map(|found| found.since), Some(since), "the other one was seen less than a minute ago");
    cluster.now = Timestamp(since.0 + 119_000);
    report_of(&mut cluster, 78, 9);
    assert!(node(&cluster, 1).findings.is_empty(), "only one has reported for a minute");
}
