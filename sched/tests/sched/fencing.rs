//! Who is fenced, when, and what becomes of its VMs.

use std::collections::BTreeSet;

use holm_model::command::*;
use holm_model::flavor::Size;
use holm_model::node::DrainPinned;
use holm_model::vm::{Availability, DiskLoss, StopMode, TaskState, VmStatus, WantPower};
use holm_model::{BootId, Command, NodeId, Reply, State, VmId, invariant};
use holm_sched::controllers::Fencing;
use holm_sched::{Controller, Facts};
use uuid::Uuid;

use crate::cluster::{Cluster, MEDIUM, SMALL_VM};

const WITH_DISK: Size = Size { disk_gib: 1, ..SMALL_VM };

fn decide(cluster: &Cluster, fenceable: &[u64]) -> Vec<Command> {
    let fenceable = fenceable.iter().copied().map(NodeId).collect();
    Fencing.decide(&cluster.state, &Facts { now: cluster.now, fenceable, ..Facts::default() })
}

fn fenced(cluster: &Cluster, fenceable: &[u64]) -> BTreeSet<u64> {
    let one = |command| match command {
        Command::FenceNode(fence) => fence.node.0,
        other => panic!("unexpected {other:?}"),
    };
    decide(cluster, fenceable).into_iter().map(one).collect()
}

/// A VM on `node`, running.
fn on(cluster: &mut Cluster, node: u64, availability: Availability) -> VmId {
    let vm = cluster.create(WITH_DISK, |vm| {
        vm.availability = availability;
        vm.policies.disk_loss = DiskLoss::Recreate;
    });
    let leadership = cluster.leadership();
    let placements = vec![Placement { vm, node: NodeId(node), choice: None }];
    let place = Command::PlaceVms(PlaceVms { leadership, placements, atomic: false });
    cluster.carry_out(vec![place]);
    cluster.run(vm);
    vm
}

fn fence(cluster: &mut Cluster, node: u64) -> Reply {
    let leadership = cluster.leadership();
    cluster.apply(Command::FenceNode(FenceNode { leadership, node: NodeId(node) }))
}

fn unfence(cluster: &mut Cluster, node: u64) -> Reply {
    let fence = cluster.state.nodes[&NodeId(node)].fence.as_ref().map(|fence| fence.revision);
    let (node, boot_id) = (NodeId(node), BootId(Uuid::from_u128(1)));
    let fence = fence.unwrap_or_default();
    cluster.apply(Command::UnfenceNode(UnfenceNode { node, boot_id, fence, found: 0 }))
}

#[test]
fn only_a_node_with_something_to_bring_back_is_fenced() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    on(&mut cluster, 1, Availability::Pinned);
    on(&mut cluster, 2, Availability::Failover);
    assert_eq!(fenced(&cluster, &[1, 2, 3]), BTreeSet::from([2]));
    assert_eq!(fenced(&cluster, &[1, 3]), BTreeSet::new());
}

#[test]
fn not_in_maintenance_not_in_a_freeze_not_among_two() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    on(&mut cluster, 2, Availability::Failover);
    let node = NodeId(2);
    let maintenance = |on| {
        Command::SetNodeMaintenance(SetNodeMaintenance {
            node,
            on,
            reason: None,
            drain: None,
            expected: None,
        })
    };
    cluster.done(maintenance(true));
    assert_eq!(fenced(&cluster, &[2]), BTreeSet::new());
    assert!(matches!(fence(&mut cluster, 2), Reply::Rejected(_)));
    cluster.done(maintenance(false));
    cluster.done(Command::SetFreeze(SetFreeze { for_ms: Some(60_000), reason: None }));
    assert_eq!(fenced(&cluster, &[2]), BTreeSet::new());
    assert!(matches!(fence(&mut cluster, 2), Reply::Rejected(_)));
    let freeze = cluster.state.freeze.as_ref().map(|freeze| freeze.revision);
    let facts = Facts { now: cluster.now, thawed: freeze, ..Facts::default() };
    let commands = Fencing.decide(&cluster.state, &facts);
    cluster.carry_out(commands);
    assert_eq!(fenced(&cluster, &[2]), BTreeSet::from([2]));
    cluster.done(Command::RemoveNode(RemoveNode { node: NodeId(3), confirm_node_off: false }));
    assert_eq!(fenced(&cluster, &[2]), BTreeSet::new());
    assert!(matches!(fence(&mut cluster, 2), Reply::Rejected(_)));
}

#[test]
fn a_fifth_of_the_nodes_and_one_at_least_within_a_ttl() {
    let mut cluster = Cluster::of(&[MEDIUM; 11]);
    for node in 1..=5 {
        on(&mut cluster, node, Availability::Failover);
    }
    let all = [1, 2, 3, 4, 5];
    let commands = decide(&cluster, &all);
    assert_eq!(commands.len(), 2);
    cluster.carry_out(commands);
    assert_eq!(decide(&cluster, &all), []);
    cluster.now.0 += cluster.state.policy.lease_ttl_ms;
    assert_eq!(decide(&cluster, &all).len(), 2);
}

#[test]
fn a_fence_frees_failover_vms_that_should_run_and_nothing_else() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let failover = on(&mut cluster, 2, Availability::Failover);
    let pinned = on(&mut cluster, 2, Availability::Pinned);
    let off = on(&mut cluster, 2, Availability::Failover);
    let deleted = on(&mut cluster, 2, Availability::Failover);
    assert!(matches!(cluster.power(off, WantPower::Off, None), Reply::Done(_)));
    cluster.done(Command::DeleteVm(DeleteVm { vm: deleted, expected: None }));
    assert!(matches!(fence(&mut cluster, 2), Reply::Done(_)));
    let vm = cluster.record(failover);
    assert_eq!((vm.status, vm.task_state), (VmStatus::Build, Some(TaskState::Scheduling)));
    assert!(vm.claim.is_none() && vm.recovery.failing_over);
    assert!(cluster.record(pinned).claim.is_some() && cluster.record(off).claim.is_some());
    assert!(!cluster.state.vms.contains_key(&deleted));
    assert!(matches!(fence(&mut cluster, 2), Reply::Rejected(_)), "twice");
    // It never gives up, though it asks for no queue.
    let (leadership, refusals) = (cluster.leadership(), Vec::new());
    let no_host = NoHost {
        leadership,
        vm: failover,
        refusals,
        give_up: true,
        counts: Default::default(),
        reserve: None,
        retry: false,
        choice: None,
        batch: None,
        also: Vec::new(),
    };
    cluster.done(Command::NoHost(no_host));
    assert_eq!(cluster.record(failover).status, VmStatus::Build);
    let host = cluster.placed_on(failover);
    assert!(host.is_some_and(|host| host != 2));
    // The one that was off is taken when it is wanted.
    assert!(matches!(cluster.power(off, WantPower::On, None), Reply::Done(_)));
    assert!(cluster.placed_on(off).is_some_and(|host| host != 2));
    let lost: Vec<_> = cluster.state.nodes[&NodeId(2)].fence.as_ref().unwrap().lost.keys().copied().collect();
    assert_eq!(BTreeSet::from_iter(lost), BTreeSet::from([failover, off, deleted]));
}

#[test]
fn a_vm_that_was_switched_off_while_it_was_built_goes_elsewhere_when_it_is_wanted() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let vm = cluster.create(SMALL_VM, |vm| {
        vm.availability = Availability::Failover;
        vm.policies.disk_loss = DiskLoss::Recreate;
    });
    let host = cluster.placed_on(vm).expect("there is room");
    cluster.power(vm, WantPower::Off, None);
    assert!(matches!(fence(&mut cluster, host), Reply::Done(_)));
    assert!(matches!(cluster.power(vm, WantPower::On, None), Reply::Done(_)));
    assert_eq!(invariant::check(&cluster.state), Ok(()));
    assert!(cluster.placed_on(vm).is_some_and(|elsewhere| elsewhere != host));
}

#[test]
fn a_fenced_node_takes_nothing_until_it_answers_that_fence() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    on(&mut cluster, 2, Availability::Failover);
    fence(&mut cluster, 2);
    cluster.set_up(2, true);
    let vm = cluster.create(SMALL_VM, |_| {});
    let (leadership, placements) =
        (cluster.leadership(), vec![Placement { vm, node: NodeId(2), choice: None }]);
    let place = Command::PlaceVms(PlaceVms { leadership, placements, atomic: true });
    cluster.apply(place.clone());
    assert!(cluster.record(vm).claim.is_none());
    let old = cluster.state.nodes[&NodeId(2)].fence.as_ref().unwrap().revision;
    assert!(matches!(unfence(&mut cluster, 2), Reply::Done(_)));
    cluster.apply(place);
    assert!(cluster.record(vm).claim.is_some());
    // An answer to the first fence does not lift a second.
    on(&mut cluster, 2, Availability::Failover);
    fence(&mut cluster, 2);
    let (node, boot_id) = (NodeId(2), BootId(Uuid::from_u128(1)));
    let late = Command::UnfenceNode(UnfenceNode { node, boot_id, fence: old, found: 0 });
    assert!(matches!(cluster.apply(late), Reply::Rejected(_)));
    let stranger = UnfenceNode { node, boot_id: BootId(Uuid::from_u128(7)), fence: old, found: 0 };
    assert!(matches!(cluster.apply(Command::UnfenceNode(stranger)), Reply::Rejected(_)));
}

#[test]
fn availability_is_in_force_when_the_node_says_so_and_not_longer() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let vm = on(&mut cluster, 2, Availability::Pinned);
    let in_force = |cluster: &Cluster| cluster.record(vm).claim.as_ref().unwrap().availability;
    let set = |availability| {
        Command::SetVmPolicies(SetVmPolicies {
            admitted: None,
            vm,
            availability: Some(availability),
            disk_loss: None,
            restart_policy: None,
            start_order: None,
            start_delay_s: None,
            any_node: false,
            expected: None,
        })
    };
    cluster.done(set(Availability::Failover));
    let first = cluster.record(vm).recovery.availability_revision;
    assert_eq!(in_force(&cluster), Availability::Pinned);
    cluster.tell_armed(vm, first);
    assert_eq!(in_force(&cluster), Availability::Failover);
    cluster.done(set(Availability::Pinned));
    assert_eq!(in_force(&cluster), Availability::Pinned);
    cluster.done(set(Availability::Failover));
    // Armed for the first time, disarmed since: too late.
    cluster.tell_armed(vm, first);
    assert_eq!(in_force(&cluster), Availability::Pinned);
    cluster.tell_armed(vm, cluster.record(vm).recovery.availability_revision);
    assert_eq!(in_force(&cluster), Availability::Failover);
}

#[test]
fn a_lowered_ttl_is_settled_when_the_longer_leases_have_ended() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let ttl =
        |ms| Command::SetClusterPolicy(SetClusterPolicy { lease_ttl_ms: Some(ms), ..Default::default() });
    cluster.done(ttl(60_000));
    cluster.done(ttl(10_000));
    assert_eq!(cluster.state.policy.longest_ttl_ms, 60_000);
    let facts = |ended| Facts { now: cluster.now, longer_leases_ended: ended, ..Facts::default() };
    assert_eq!(Fencing.decide(&cluster.state, &facts(false)), []);
    let commands = Fencing.decide(&cluster.state, &facts(true));
    cluster.carry_out(commands);
    assert_eq!(cluster.state.policy.longest_ttl_ms, 10_000);
}

#[test]
fn without_a_leader_nothing_is_decided() {
    let facts = Facts { fenceable: BTreeSet::from([NodeId(1)]), ..Facts::default() };
    assert_eq!(Fencing.decide(&State::default(), &facts), []);
}

#[test]
fn a_node_that_opens_again_starts_what_its_drain_stopped() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let vm = on(&mut cluster, 2, Availability::Pinned);
    let request = DrainRequest { stop_timeout_s: 5, pinned: DrainPinned::Stop };
    let node = NodeId(2);
    cluster.done(Command::SetNodeDrain(SetNodeDrain { node, drain: Some(request), expected: None }));
    let leadership = cluster.leadership();
    cluster.done(Command::StopForDrain(StopForDrain { leadership, vms: vec![vm] }));
    assert_eq!(cluster.record(vm).power.want, WantPower::Off);
    cluster.done(Command::SetNodeEnabled(SetNodeEnabled {
        node,
        enabled: true,
        reason: None,
        expected: None,
    }));
    assert_eq!((cluster.record(vm).power.want, cluster.record(vm).power.run), (WantPower::On, 2));
    assert!(cluster.state.nodes[&node].drain.is_none());
}

/// Asked to leave, then its node is lost: whoever takes the claim away takes the request along.
#[test]
fn a_vm_that_was_to_leave_a_node_that_is_lost_can_be_started_again() {
    for off in [false, true] {
        let mut cluster = Cluster::of(&[MEDIUM; 3]);
        let vm = on(&mut cluster, 2, Availability::Failover);
        let (leadership, stop) = (cluster.leadership(), StopMode::Force);
        let vacate = VacateVms { leadership, vms: vec![vm], reason: "drain".into(), stop };
        cluster.done(Command::VacateVms(vacate));
        if off {
            cluster.power(vm, WantPower::Off, None);
        }
        cluster.set_up(2, false);
        let remove = RemoveNode { node: NodeId(2), confirm_node_off: true };
        cluster.done(Command::RemoveNode(remove));
        assert_eq!(cluster.record(vm).recovery.vacate, None);
        assert!(matches!(cluster.power(vm, WantPower::On, None), Reply::Done(_)));
        assert!(cluster.placed_on(vm).is_some());
    }
}

#[test]
fn what_a_drain_stopped_runs_again_where_its_machine_never_comes_back() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let vm = on(&mut cluster, 2, Availability::Pinned);
    let request = DrainRequest { stop_timeout_s: 5, pinned: DrainPinned::Stop };
    let node = NodeId(2);
    cluster.done(Command::SetNodeDrain(SetNodeDrain { node, drain: Some(request), expected: None }));
    let leadership = cluster.leadership();
    cluster.done(Command::StopForDrain(StopForDrain { leadership, vms: vec![vm] }));
    assert!(cluster.record(vm).may_move().is_err(), "its drain starts it again");
    cluster.set_up(2, false);
    cluster.done(Command::EvacuateVm(EvacuateVm {
        vm,
        confirm_node_off: true,
        admitted: None,
        expected: None,
    }));
    assert_eq!(cluster.record(vm).power.want, WantPower::On);
    assert!(cluster.placed_on(vm).is_some_and(|host| host != 2));
}

#[test]
fn a_clock_that_is_moved_moves_what_the_cap_on_fences_counts_from() {
    for by_ms in [-86_400_000, 86_400_000] {
        let mut cluster = Cluster::of(&[MEDIUM; 5]);
        on(&mut cluster, 2, Availability::Failover);
        on(&mut cluster, 3, Availability::Failover);
        fence(&mut cluster, 2);
        let leadership = cluster.leadership();
        cluster.done(Command::SetClock(SetClock { leadership, by_ms }));
        cluster.now.0 = cluster.now.0.saturating_add_signed(by_ms);
        assert_eq!(fenced(&cluster, &[3]), BTreeSet::new(), "one within a ttl");
        // Also when the first is back already.
        unfence(&mut cluster, 2);
        assert_eq!(fenced(&cluster, &[3]), BTreeSet::new(), "one within a ttl, though it is back");
        cluster.now.0 += cluster.state.policy.lease_ttl_ms;
        assert_eq!(fenced(&cluster, &[3]), BTreeSet::from([3]));
    }
}

#[test]
fn what_its_node_is_building_is_left_to_it() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let vm = cluster.create(SMALL_VM, |_| {});
    cluster.placed_on(vm);
    let reset = Command::ResetVmState(ResetVmState { vm, expected: None });
    assert!(matches!(cluster.apply(reset), Reply::Rejected(_)));
    let (leadership, task_state, run) = (cluster.leadership(), TaskState::Spawning, 1);
    cluster.done(Command::TaskOverdue(TaskOverdue { leadership, vm, task_state, run }));
    assert_eq!(cluster.record(vm).status, VmStatus::Build);
    assert!(cluster.record(vm).fault.is_some());
    cluster.fail_build(vm, "no disk");
    assert_eq!(cluster.record(vm).task_state, Some(TaskState::Scheduling));
}

#[test]
fn a_vm_on_its_way_out_keeps_the_word_that_let_it_go() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let vm = on(&mut cluster, 2, Availability::Pinned);
    let (leadership, stop) = (cluster.leadership(), StopMode::Force);
    cluster.done(Command::VacateVms(VacateVms { leadership, vms: vec![vm], reason: "drain".into(), stop }));
    let refuse = SetVmPolicies {
        admitted: None,
        vm,
        availability: None,
        disk_loss: Some(DiskLoss::Refuse),
        restart_policy: None,
        start_order: None,
        start_delay_s: None,
        any_node: false,
        expected: None,
    };
    match cluster.apply(Command::SetVmPolicies(refuse)) {
        Reply::Rejected(reason) => assert!(reason.to_string().contains("disk_loss"), "{reason}"),
        other => panic!("{other:?}"),
    }
}
