//! VMs that lost their node and fail to build on the nodes left: they are tried again, and not without end.

use holm_model::vm::{VmStatus, WantPower};
use holm_model::{Reply, Timestamp, VmId, invariant};
use holm_sched::controllers::{Placement, RETRY_DOUBLINGS, RETRY_PAUSE_MS};
use holm_sched::{Controller, Facts};

use crate::cluster::{Cluster, MEDIUM, SMALL_VM};

/// One that ran on a node of five that was fenced, and failed to build on all others.
fn failed_everywhere() -> (Cluster, VmId) {
    let mut cluster = Cluster::of(&[MEDIUM; 5]);
    let vm = cluster.lost_its_node(SMALL_VM);
    fail_everywhere(&mut cluster, vm);
    (cluster, vm)
}

fn fail_everywhere(cluster: &mut Cluster, vm: VmId) {
    for _ in 0..4 {
        assert!(cluster.placed_on(vm).is_some(), "a node is left");
        cluster.fail_build(vm, "no such image");
    }
    assert_eq!(cluster.placed_on(vm), None);
    assert_eq!(invariant::check(&cluster.state), Ok(()));
    let record = cluster.record(vm);
    assert_eq!((record.status, record.excluded.len()), (VmStatus::Build, 4), "it never gives up");
}

fn later(cluster: &mut Cluster, ms: u64) {
    cluster.now = Timestamp(cluster.now.0 + ms);
}

#[test]
fn one_that_lost_its_node_is_built_anew_after_a_pause_that_doubles() {
    let (mut cluster, vm) = failed_everywhere();
    for round in 0..RETRY_DOUBLINGS + 2 {
        let pause_ms = RETRY_PAUSE_MS << round.min(RETRY_DOUBLINGS);
        later(&mut cluster, pause_ms - 1);
        assert_eq!(Placement.decide(&cluster.state, &Facts { now: cluster.now, ..Facts::default() }), []);
        later(&mut cluster, 1);
        assert_eq!(cluster.placed_on(vm), None);
        assert_eq!(cluster.record(vm).excluded, []);
        assert_eq!(cluster.events_of(vm).last().map(String::as_str), Some("trying-again"));
        fail_everywhere(&mut cluster, vm);
    }
    later(&mut cluster, RETRY_PAUSE_MS << RETRY_DOUBLINGS);
    cluster.placed_on(vm);
    assert!(cluster.placed_on(vm).is_some());
    cluster.run(vm);
    let record = cluster.record(vm);
    assert_eq!((record.recovery.build_rounds, record.recovery.failing_over), (0, false));
}

#[test]
fn a_start_has_the_nodes_tried_again_at_once() {
    let (mut cluster, vm) = failed_everywhere();
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
