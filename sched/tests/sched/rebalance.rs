//! Rebalancing: what is moved, what stays, and that it ends.

use holm_model::command::{Command, CreateVm, MoveVms, ReleaseCause, Relocation, RemoveNode};
use holm_model::feasible::can_arrive;
use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::reply::Moved;
use holm_model::scheduling::Scheduling;
use holm_model::version::RULES;
use holm_model::vm::{Availability, DiskLoss, StopMode, VmStatus, WantPower};
use holm_model::{GroupId, NodeId, Outcome, Reply, VmId};
use holm_sched::rebalance::{Bounds, MOVES_AT_ONCE, Plan, due, rebalance, under_way};
use holm_sched::{Policy, explain};

use crate::cluster::{Cluster, MEDIUM};
use crate::world::{Dice, world};

/// 1 of 8 vCPUs, and no disk that anybody would miss.
const ONE: Size = Size { vcpus: 1, memory_mib: 16, disk_gib: 0 };

fn failover(vm: &mut CreateVm) {
    vm.availability = Availability::Failover;
    vm.policies.disk_loss = DiskLoss::Recreate;
}

fn on(cluster: &mut Cluster, node: u64, size: Size, change: impl FnOnce(&mut CreateVm)) -> VmId {
    let nodes: Vec<u64> = cluster.state.nodes.keys().map(|node| node.0).collect();
    nodes.iter().filter(|other| **other != node).for_each(|other| cluster.cordon(*other, "test"));
    let vm = cluster.create(size, change);
    assert_eq!(cluster.placed_on(vm), Some(node));
    cluster.run(vm);
    nodes.into_iter().for_each(|node| cluster.uncordon(node));
    vm
}

fn plan(cluster: &Cluster) -> Plan {
    rebalance(&cluster.state, &Policy::of(&cluster.state.scheduler), Bounds::default())
}

/// Only vCPUs count.
fn by_cpu(multiplier: i64) -> Cluster {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    cluster.policy(|policy| policy.weighers = [("Cpu".to_owned(), multiplier)].into());
    cluster
}

fn carry_out(cluster: &mut Cluster, plan: &Plan) {
    let moves = plan.moves.iter().map(|moved| {
        let epoch = cluster.record(moved.vm).claim.as_ref().expect("it is placed").epoch;
        Relocation { vm: moved.vm, epoch, to: moved.to, gain: moved.gain }
    });
    let command = MoveVms { moves: moves.collect(), stop: StopMode::Force, planned: None, admitted: None };
    let done = cluster.done(Command::MoveVms(command));
    assert_eq!(done.outcome, Outcome::Placed { refused: vec![] });
    for moved in &plan.moves {
        cluster.release(moved.vm, ReleaseCause::Vacated);
    }
}

#[test]
fn six_on_one_of_three_hosts_become_two_on_each() {
    let mut cluster = by_cpu(1000);
    (0..6).for_each(|_| _ = on(&mut cluster, 1, ONE, failover));
    let plan = plan(&cluster);
    // Shares 0.75, 0, 0: mean 0.25, variance 0.125, deviation 0.353553.
    assert_eq!((plan.before, plan.after), (353_553, 0));
    // After the first move 0.625, 0.125, 0: variance 0.0729166, deviation 0.270030.
    assert_eq!(plan.moves[0].gain, 353_553 - 270_030);
    let to: Vec<u64> = plan.moves.iter().map(|moved| moved.to.0).collect();
    let count = |node| to.iter().filter(|to| **to == node).count();
    assert_eq!((count(1), count(2), count(3)), (0, 2, 2));
    assert_eq!(plan.moves.iter().map(|moved| moved.gain).sum::<u64>(), 353_553);

    carry_out(&mut cluster, &plan);
    cluster.placed_on(plan.moves[0].vm);
    for moved in &plan.moves {
        let claim = cluster.record(moved.vm).claim.as_ref().expect("it found a host");
        assert_eq!(claim.node, moved.to, "where it was moved to");
    }
    assert_eq!(self::plan(&cluster).moves, []);
}

#[test]
fn a_negative_multiplier_packs() {
    let mut cluster = by_cpu(-1000);
    (1..=3).for_each(|node| _ = on(&mut cluster, node, ONE, failover));
    let plan = plan(&cluster);
    assert_eq!(plan.moves.len(), 2);
    assert_eq!(plan.moves[0].to, plan.moves[1].to);
    // Shares 0.375, 0, 0: deviation 0.176776, which is what packing wants.
    assert_eq!((plan.before, plan.after), (0, -176_776));
}

#[test]
fn what_cannot_move_stays_with_the_reason() {
    let mut cluster = by_cpu(1000);
    let disk = Size { disk_gib: 1, ..ONE };
    let cases = [
        (
            on(&mut cluster, 1, ONE, |_| {}),
            "it runs and is pinned, and there is no live migration: stop it first",
        ),
        (on(&mut cluster, 1, disk, |_| {}), "its local disk holds something (`disk_loss: refuse`)"),
        (
            on(&mut cluster, 1, ONE, |vm| vm.node = Some(NodeId(1))),
            "it was created for that node only; `holm vm set NAME --any-node` frees it",
        ),
    ];
    let plan = plan(&cluster);
    assert_eq!(plan.moves, []);
    let fixed: Vec<_> = plan.fixed.iter().map(|fixed| (fixed.vm, fixed.why.as_str())).collect();
    assert_eq!(fixed, cases);
    for (vm, why) in cases {
        let epoch = cluster.record(vm).claim.as_ref().expect("it is placed").epoch;
        let moves = vec![Relocation { vm, epoch, to: NodeId(2), gain: 0 }];
        let done = cluster.done(Command::MoveVms(MoveVms {
            moves,
            stop: StopMode::Force,
            planned: None,
            admitted: None,
        }));
        let Outcome::Placed { refused } = done.outcome else { panic!("{done:?}") };
        assert!(refused[0].1.to_string().ends_with(why), "{refused:?}");
    }
}

#[test]
fn groups_stay_apart_and_the_bounds_hold() {
    let mut cluster = by_cpu(1000);
    let apart: GroupId = cluster.group(1, GroupPolicy::AntiAffinity, Some(2));
    let member = |vm: &mut CreateVm| {
        failover(vm);
        vm.scheduling = Scheduling { group: Some(apart), ..Scheduling::default() };
    };
    for node in [2, 2, 3, 3, 1] {
        on(&mut cluster, node, ONE, member);
    }
    (0..3).for_each(|_| _ = on(&mut cluster, 1, ONE, failover));
    let policy = Policy::of(&cluster.state.scheduler);
    let of = |max_moves, min_gain| rebalance(&cluster.state, &policy, Bounds { max_moves, min_gain }).moves;
    // 4, 2, 2 of 8: one move more evens nothing out but exchanges places; a member could not go at all.
    assert!(of(10, 1).iter().all(|moved| cluster.record(moved.vm).spec.scheduling.group.is_none()));
    (0..2).for_each(|_| _ = on(&mut cluster, 1, ONE, failover));
    let of = |max_moves, min_gain| rebalance(&cluster.state, &policy, Bounds { max_moves, min_gain }).moves;
    let moves = of(10, 1);
    assert_eq!(moves.len(), 2, "6, 2, 2 become 4, 3, 3");
    assert!(moves.iter().all(|moved| cluster.record(moved.vm).spec.scheduling.group.is_none()));
    assert_eq!(of(1, 1).len(), 1);
    assert_eq!(of(10, moves[0].gain + 1), []);
}

/// Six that are off on the first of three hosts, and one of them moved: where to.
fn moved_while_off() -> (Cluster, VmId, u64) {
    let mut cluster = by_cpu(1000);
    let vms = [0; 6].map(|_| on(&mut cluster, 1, ONE, |_| {}));
    vms.iter().for_each(|vm| cluster.switch_off(*vm));
    let moves = plan(&cluster).moves[..1].to_vec();
    let (vm, to) = (moves[0].vm, moves[0].to.0);
    carry_out(&mut cluster, &Plan { moves, ..Plan::default() });
    let record = cluster.record(vm);
    assert_eq!((record.status, record.claim.is_some()), (VmStatus::Shutoff, false), "off, and on no node");
    assert_eq!(cluster.placed_on(vm), None, "it is not wanted");
    (cluster, vm, to)
}

fn start(cluster: &mut Cluster, vm: VmId) -> Option<u64> {
    assert!(matches!(cluster.power(vm, WantPower::On, None), Reply::Done(_)));
    cluster.placed_on(vm)
}

#[test]
fn one_that_was_off_goes_where_it_was_moved_to_when_it_is_started() {
    let (mut cluster, vm, to) = moved_while_off();
    // Any other host would be better now.
    (0..3).for_each(|_| _ = on(&mut cluster, to, ONE, |_| {}));
    let explained = explain(&cluster.state, &Policy::of(&cluster.state.scheduler), cluster.record(vm));
    assert_eq!(explained.best, Some(NodeId(to)));
    assert_eq!(start(&mut cluster, vm), Some(to));
    let record = cluster.record(vm);
    assert_eq!(record.recovery.move_to, None, "it has arrived");
}

#[test]
fn where_it_was_moved_to_is_given_up_when_it_does_not_fit_there_any_longer() {
    type Change = fn(&mut Cluster, u64);
    let changes: [Change; 4] = [
        |cluster, to| cluster.cordon(to, "meanwhile"),
        |cluster, to| cluster.set_up(to, false),
        |cluster, to| _ = on(cluster, to, Size { vcpus: 8, ..ONE }, |_| {}),
        |cluster, to| {
            cluster.set_up(to, false);
            _ = cluster.done(Command::RemoveNode(RemoveNode { node: NodeId(to), confirm_node_off: true }));
        },
    ];
    for change in changes {
        let (mut cluster, vm, to) = moved_while_off();
        change(&mut cluster, to);
        assert!(start(&mut cluster, vm).is_some_and(|node| node != to));
        assert_eq!(cluster.record(vm).recovery.move_to, None);
    }
}

/// Begins of the plan what may begin now, as an operator's call does.
fn begin(cluster: &mut Cluster) -> (usize, Vec<Moved>) {
    let policy = Policy::of(&cluster.state.scheduler);
    let plan = rebalance(&cluster.state, &policy, Bounds { max_moves: 100, min_gain: 10_000 });
    let due = due(&cluster.state, &policy, &plan);
    if due.is_empty() {
        return (plan.moves.len(), Vec::new());
    }
    let moves = due.into_iter().map(|moved| {
        let epoch = cluster.record(moved.vm).claim.as_ref().expect("it is placed").epoch;
        Relocation { vm: moved.vm, epoch, to: moved.to, gain: moved.gain }
    });
    let (moves, planned) = (moves.collect(), Some(plan.moves.len() as u32));
    let done =
        cluster.done(Command::MoveVms(MoveVms { moves, stop: StopMode::Force, planned, admitted: None }));
    let Outcome::Moved { begun, refused, .. } = done.outcome else { panic!("{done:?}") };
    assert_eq!(refused, []);
    (plan.moves.len(), begun)
}

/// Those that were begun have left, and are placed.
fn arrive(cluster: &mut Cluster, begun: &[Moved]) {
    begun.iter().for_each(|moved| cluster.release(moved.vm, ReleaseCause::Vacated));
    for moved in begun {
        assert_eq!(cluster.placed_on(moved.vm), Some(moved.to.0), "where it was moved to");
        cluster.run(moved.vm);
    }
}

#[test]
fn a_few_are_under_way_at_a_time_and_the_rest_follows() {
    let mut cluster = by_cpu(1000);
    (0..8).for_each(|_| _ = on(&mut cluster, 1, ONE, failover));
    let (planned, begun) = begin(&mut cluster);
    assert_eq!((planned, begun.len()), (5, MOVES_AT_ONCE));
    // Those under way count where they go: what is left to move is what was not begun.
    let (planned, more) = begin(&mut cluster);
    assert_eq!((planned, more), (1, vec![]));
    arrive(&mut cluster, &begun);
    let (planned, begun) = begin(&mut cluster);
    assert_eq!((planned, begun.len()), (1, 1));
    arrive(&mut cluster, &begun);
    assert_eq!(begin(&mut cluster), (0, vec![]));
}

#[test]
fn those_that_cannot_leave_a_node_that_is_down_hold_up_nobody() {
    let mut cluster = by_cpu(1000);
    (0..8).for_each(|_| _ = on(&mut cluster, 1, ONE, failover));
    let (_, begun) = begin(&mut cluster);
    assert_eq!(begun.len(), MOVES_AT_ONCE);
    (0..4).for_each(|_| _ = on(&mut cluster, 2, ONE, failover));
    assert_eq!(begin(&mut cluster).1, [], "as many as may be are under way");
    cluster.set_up(1, false);
    let (planned, begun) = begin(&mut cluster);
    assert!(planned > 0 && !begun.is_empty(), "{begun:?} of {planned}");
    cluster.set_up(1, true);
    assert_eq!(begin(&mut cluster).1, [], "they go on, and count again");
}

#[test]
fn those_that_wait_for_a_node_that_does_not_take_them_hold_up_nobody() {
    let mut cluster = by_cpu(1000);
    (0..8).for_each(|_| _ = on(&mut cluster, 1, ONE, failover));
    let (_, begun) = begin(&mut cluster);
    assert_eq!(begun.len(), MOVES_AT_ONCE);
    begun.iter().for_each(|moved| cluster.release(moved.vm, ReleaseCause::Vacated));
    let counted = |cluster: &Cluster| {
        under_way(&cluster.state).filter(|(vm, _)| can_arrive(&cluster.state, vm)).count()
    };
    let to_second = begun.iter().filter(|moved| moved.to == NodeId(2)).count();
    assert!(to_second > 0 && counted(&cluster) == MOVES_AT_ONCE, "{begun:?}");
    cluster.cordon(2, "test");
    assert_eq!(counted(&cluster), MOVES_AT_ONCE - to_second);
    cluster.uncordon(2);
    cluster.set_up(2, false);
    assert_eq!(counted(&cluster), MOVES_AT_ONCE - to_second);
    cluster.set_up(2, true);
    assert_eq!(counted(&cluster), MOVES_AT_ONCE, "they go on, and count again");
}

/// Apply counts as `due` does, and says which one is waited for; an entry of before is judged as it was.
#[test]
fn a_move_beside_too_many_names_one_under_way() {
    let mut cluster = by_cpu(1000);
    let vms: Vec<VmId> = (0..8).map(|_| on(&mut cluster, 1, ONE, failover)).collect();
    let (_, begun) = begin(&mut cluster);
    begun.iter().for_each(|moved| cluster.release(moved.vm, ReleaseCause::Vacated));
    let next = *vms.iter().find(|vm| cluster.record(**vm).claim.is_some()).expect("some have stayed");
    let epoch = cluster.record(next).claim.as_ref().expect("it has not left").epoch;
    let told = |cluster: &mut Cluster, rules| {
        let moves = vec![Relocation { vm: next, epoch, to: NodeId(3), gain: 0 }];
        let moves = MoveVms { moves, stop: StopMode::Force, planned: Some(1), admitted: None };
        match cluster.apply_under(rules, Command::MoveVms(moves)) {
            Reply::Done(done) => match done.outcome {
                Outcome::Moved { refused, .. } => refused.first().map(|(_, reason)| reason.to_string()),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    let refused = told(&mut cluster, RULES).expect("four are under way");
    assert!(refused.contains("among them `"), "{refused}");
    assert!(begun.iter().any(|moved| refused.contains(&cluster.record(moved.vm).name)), "{refused}");
    cluster.cordon(2, "test");
    assert!(told(&mut cluster, 1).expect("so it was judged").ends_with("have arrived"));
    assert_eq!(told(&mut cluster, RULES), None, "those that wait for node 2 are not waited for");
}

#[test]
fn of_a_group_one_is_under_way_at_a_time() {
    let mut cluster = by_cpu(1000);
    let group = cluster.group(1, GroupPolicy::SoftAntiAffinity, None);
    for _ in 0..6 {
        on(&mut cluster, 1, ONE, |vm| {
            failover(vm);
            vm.scheduling.group = Some(group);
        });
    }
    let (planned, begun) = begin(&mut cluster);
    assert_eq!((planned, begun.len()), (4, 1));
    assert_eq!(begin(&mut cluster).1, []);
    arrive(&mut cluster, &begun);
    assert_eq!(begin(&mut cluster).1.len(), 1);
}

#[test]
fn a_move_to_a_host_without_room_beside_what_is_on_its_way_there_is_refused() {
    let mut cluster = by_cpu(1000);
    let vms = [0; 3].map(|_| on(&mut cluster, 1, ONE, failover));
    on(&mut cluster, 2, Size { vcpus: 7, ..ONE }, |_| {});
    let mut moved = |vms: &[VmId]| {
        let to = |vm: &VmId| {
            let epoch = cluster.record(*vm).claim.as_ref().expect("it is placed").epoch;
            Relocation { vm: *vm, epoch, to: NodeId(2), gain: 0 }
        };
        let (moves, stop) = (vms.iter().map(to).collect(), StopMode::Force);
        let done = cluster.done(Command::MoveVms(MoveVms { moves, stop, planned: Some(3), admitted: None }));
        let Outcome::Moved { begun, refused, .. } = done.outcome else { panic!("{done:?}") };
        let begun: Vec<VmId> = begun.iter().map(|moved| moved.vm).collect();
        (begun, refused.iter().map(|(vm, reason)| format!("{vm}: {reason}")).collect::<Vec<_>>())
    };
    let full = |vm: VmId| format!("{vm}: Capacity: VCPU: 1 wanted, 0 free of 8");
    assert_eq!(moved(&vms[..2]), (vec![vms[0]], vec![full(vms[1])]));
    assert_eq!(moved(&vms[2..]), (vec![], vec![full(vms[2])]));
}

/// For random clusters: plans of many moves, begun a few at a time, end where they say, with nobody who waits.
#[test]
fn plans_of_many_moves_are_carried_out_a_few_at_a_time() {
    let (mut moved, mut together) = (0, 0);
    for seed in 0..300 {
        let mut cluster = movable_world(seed);
        for round in 0.. {
            assert!(round < 60, "seed {seed}: it does not end");
            let (_, begun) = begin(&mut cluster);
            if begun.is_empty() {
                break;
            }
            assert!(begun.len() <= MOVES_AT_ONCE);
            together += usize::from(begun.len() > 1);
            moved += begun.len();
            arrive(&mut cluster, &begun);
        }
    }
    assert!(moved > 50 && together > 8, "{moved} moves, {together} times some together");
}

/// A random cluster in which nobody waits, and most may be moved.
fn movable_world(seed: u64) -> Cluster {
    let mut cluster = world(seed);
    let mut dice = Dice(seed ^ 4);
    let all: Vec<VmId> = cluster.state.vms.keys().copied().collect();
    for id in all {
        let vm = cluster.state.vms.get_mut(&id).expect("it is there");
        vm.spec.policies.disk_loss = DiskLoss::Recreate;
        if !dice.once_in(3) {
            vm.spec.availability = Availability::Failover;
            vm.claim.iter_mut().for_each(|claim| claim.availability = Availability::Failover);
        }
    }
    cluster.state.waiting.clone().into_iter().for_each(|vm| cluster.delete(vm));
    let placed: Vec<VmId> = cluster.state.vms.keys().copied().collect();
    for vm in placed {
        if cluster.record(vm).claim.is_some() {
            cluster.run(vm);
        }
    }
    cluster
}

/// For random clusters: every plan improves, apply takes it, the VMs end where it says, the imbalance is what it said,
/// and repeated plans end.
#[test]
fn plans_of_random_clusters_are_carried_out_and_come_to_an_end() {
    let mut moved = 0;
    for seed in 0..400 {
        let mut cluster = movable_world(seed);
        let mut last = None;
        for round in 0.. {
            assert!(round < 20, "seed {seed}: it does not end");
            let plan = plan(&cluster);
            assert!(plan.after <= plan.before, "seed {seed}");
            assert_eq!(plan.before, last.unwrap_or(plan.before), "seed {seed}: what was foreseen");
            if plan.moves.is_empty() {
                break;
            }
            for one in &plan.moves {
                let single = Plan { moves: vec![one.clone()], ..Plan::default() };
                carry_out(&mut cluster, &single);
                assert_eq!(cluster.placed_on(one.vm), Some(one.to.0), "seed {seed}: {}", one.name);
                cluster.run(one.vm);
                moved += 1;
            }
            last = Some(plan.after);
        }
    }
    assert!(moved > 50, "only {moved} moves");
}
