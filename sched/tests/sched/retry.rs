//! VMs that lost their node and fail to build on the nodes left: they are tried again, and not without end.

use std::collections::BTreeSet;

use holm_model::command::{PlaceVms, Placement as Placed, ReleaseCause, Released};
use holm_model::node::Node;
use holm_model::version::RULES;
use holm_model::vm::{MAX_BUILD_HOSTS, VmStatus, WantPower};
use holm_model::{Command, NodeId, Reply, Timestamp, VmId, invariant};
use holm_sched::controllers::{Placement, RETRY_DOUBLINGS, RETRY_PAUSE_MS};
use holm_sched::{Controller, Facts};

use crate::cluster::{Cluster, MEDIUM, SMALL_VM};

/// One that ran on a node of so many that was fenced, and is broken itself.
fn broken(nodes: usize) -> (Cluster, VmId) {
    let mut cluster = Cluster::of(&vec![MEDIUM; nodes]);
    let vm = cluster.lost_its_node(SMALL_VM);
    (cluster, vm)
}

/// Builds of it fail until no node is tried any more: which were.
fn fail_a_round(cluster: &mut Cluster, vm: VmId) -> Vec<u64> {
    let mut tried = Vec::new();
    while let Some(node) = cluster.placed_on(vm) {
        tried.push(node);
        cluster.fail_build(vm, "no such image");
    }
    assert_eq!(invariant::check(&cluster.state), Ok(()));
    assert_eq!(cluster.record(vm).status, VmStatus::Build, "it never gives up");
    tried.sort_unstable();
    tried
}

/// Nothing is decided before the pause of this round is over; then the next begins.
fn pause(cluster: &mut Cluster, vm: VmId, round: u32) {
    let pause_ms = RETRY_PAUSE_MS << round.min(RETRY_DOUBLINGS);
    later(cluster, pause_ms - 1);
    assert_eq!(Placement.decide(&cluster.state, &Facts { now: cluster.now, ..Facts::default() }), []);
    later(cluster, 1);
    assert_eq!(cluster.placed_on(vm), None);
    assert_eq!(cluster.events_of(vm).last().map(String::as_str), Some("trying-again"));
}

fn later(cluster: &mut Cluster, ms: u64) {
    cluster.now = Timestamp(cluster.now.0 + ms);
}

#[test]
fn one_that_lost_its_node_is_built_anew_after_a_pause_that_doubles() {
    let (mut cluster, vm) = broken(4);
    for round in 0..RETRY_DOUBLINGS + 2 {
        assert_eq!(fail_a_round(&mut cluster, vm).len(), 3, "in round {round}");
        pause(&mut cluster, vm, round);
        assert_eq!(cluster.placed_on(vm), None, "that there is no other is found at once");
        assert_eq!(cluster.record(vm).excluded, []);
    }
    assert!(cluster.placed_on(vm).is_some());
    cluster.run(vm);
    let record = cluster.record(vm);
    let recovery = &record.recovery;
    assert_eq!((recovery.build_rounds, recovery.tried_before, recovery.failing_over), (0, 0, false));
}

#[test]
fn the_next_round_is_elsewhere_and_then_everywhere() {
    let (mut cluster, vm) = broken(9);
    let first = fail_a_round(&mut cluster, vm);
    pause(&mut cluster, vm, 0);
    let second = fail_a_round(&mut cluster, vm);
    pause(&mut cluster, vm, 1);
    let third = fail_a_round(&mut cluster, vm);
    assert_eq!([first.len(), second.len(), third.len()], [3, 3, 2]);
    let tried: BTreeSet<u64> = [first, second, third].concat().into_iter().collect();
    assert_eq!(tried.len(), 8, "each once");
    pause(&mut cluster, vm, 2);
    assert_eq!(cluster.record(vm).excluded, []);
    assert_eq!(fail_a_round(&mut cluster, vm).len(), 3);
}

/// A hundred nodes, and a VM whose image is broken: three are tried before each pause, and three are blamed.
#[test]
fn one_that_is_broken_itself_blames_few_nodes() {
    let (mut cluster, vm) = broken(100);
    for round in 0..4 {
        assert_eq!(fail_a_round(&mut cluster, vm).len(), MAX_BUILD_HOSTS);
        let refusals = &cluster.record(vm).refusals;
        assert!(refusals.iter().any(|refusal| refusal.message.starts_with("failed to build here")));
        let fault = cluster.record(vm).fault.as_ref().expect("it waits");
        assert!(fault.message.contains("Excluded"), "{}", fault.message);
        pause(&mut cluster, vm, round);
    }
    let blamed = cluster.state.nodes.values().filter(|node| node.failed_builds > 0).count();
    assert_eq!(blamed, MAX_BUILD_HOSTS);
}

/// What the leader of an older version had placed on a fourth is built there; one of today's is refused.
#[test]
fn a_fourth_host_was_one_before() {
    for (rules, takes) in [(1, true), (RULES, false)] {
        let (mut cluster, vm) = broken(6);
        let tried = fail_a_round(&mut cluster, vm);
        let fenced = |node: &&Node| node.fence.is_some();
        let fenced = cluster.state.nodes.values().find(fenced).expect("its own").id.0;
        let node = (1..=6).find(|node| *node != fenced && !tried.contains(node)).map(NodeId);
        let node = node.expect("two are left");
        let (leadership, placements) = (cluster.leadership(), vec![Placed { vm, node, choice: None }]);
        let place = Command::PlaceVms(PlaceVms { leadership, placements, atomic: false });
        assert!(matches!(cluster.apply_under(rules, place), Reply::Done(_)));
        assert_eq!(cluster.record(vm).claim.is_some(), takes, "under rules {rules}");
        if takes {
            let epoch = cluster.record(vm).claim.as_ref().expect("it is placed").epoch;
            let cause = ReleaseCause::BuildFailed { reason: "no such image".into() };
            cluster.apply_under(rules, Command::Released(Released { node, vm, epoch, cause }));
            assert_eq!(cluster.state.nodes.values().filter(|node| node.failed_builds > 0).count(), 4);
        }
    }
}

#[test]
fn a_start_has_the_nodes_tried_again_at_once() {
    let (mut cluster, vm) = broken(5);
    fail_a_round(&mut cluster, vm);
    assert!(matches!(cluster.power(vm, WantPower::On, None), Reply::Done(_)));
    assert!(cluster.placed_on(vm).is_some());
    cluster.fail_build(vm, "no such image");
    // One that is new is tried on three, and then it is for its maker to say; while it waits, the same.
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let new = cluster.vm(SMALL_VM);
    let first = cluster.placed_on(new).expect("there is room");
    cluster.cordon(3 - first, "a new fan");
    cluster.fail_build(new, "no such image");
    later(&mut cluster, RETRY_PAUSE_MS);
    assert_eq!(cluster.placed_on(new), None, "it is not tried again by itself");
    assert!(matches!(cluster.power(new, WantPower::On, None), Reply::Done(_)));
    assert_eq!(cluster.placed_on(new), Some(first));
    let Reply::Rejected(_) = cluster.power(new, WantPower::On, None) else { panic!("it is on its way") };
}
