//! A policy that refuses what breaks N+1: nothing takes the room that failover VMs need, however it comes.

use holm_model::command::{
    CreateVm, CreateVms, DeleteVm, EvacuateVm, MoveVms, ReleaseCause, Relocation, SetVmPolicies,
};
use holm_model::flavor::Size;
use holm_model::policy::NPlusOne;
use holm_model::vm::{OnNoHost, StopMode, Vm, VmStatus};
use holm_model::{Actor, Command, NodeId, Outcome, Reason, Reply, Revision, Timestamp, VmId, invariant};
use holm_sched::admission::{admitted_at, is_judged, objections};
use holm_sched::controllers::Placement;
use holm_sched::rebalance::{Bounds, due};
use holm_sched::{Controller, Facts, Policy, n_plus_one, rebalance};
use proptest::prelude::*;

use crate::cluster::{Cluster, SMALL_VM};
use crate::n_plus_one::{TWO, cluster as three, failover, on, start, to_failover};
use crate::world::{Dice, world};

fn actor() -> Actor {
    Actor { name: "test".into(), project: "default".into() }
}

/// What is said against the command, as whoever proposes asks.
fn against(cluster: &Cluster, command: &Command) -> Vec<String> {
    judge(cluster, command).expect("apply takes it")
}

fn judge(cluster: &Cluster, command: &Command) -> Result<Vec<String>, Reason> {
    let state = &cluster.state;
    match is_judged(state, state.scheduler.n_plus_one, command) {
        true => objections(state, cluster.now, &actor(), &admitted_at(command.clone(), state.revision)),
        false => Ok(Vec::new()),
    }
}

/// Asked and, if nothing is said against it, proposed.
fn propose(cluster: &mut Cluster, command: Command) -> Result<(), Vec<String>> {
    let against = against(cluster, &command);
    if !against.is_empty() {
        return Err(against);
    }
    let judged = cluster.state.revision;
    let reply = cluster.apply(admitted_at(command, judged));
    assert!(matches!(reply, Reply::Done(_)), "{reply:?}");
    Ok(())
}

fn refuse(cluster: &mut Cluster) {
    cluster.policy(|policy| policy.n_plus_one = NPlusOne::Refuse);
}

fn pinned(cluster: &mut Cluster) -> Command {
    let flavor = cluster.flavor_with(TWO, &[]);
    Command::CreateVm(cluster.request(flavor, |_| {}))
}

/// Three hosts of four places: three failover VMs on the first, and three places elsewhere.
fn just_enough() -> Cluster {
    let mut cluster = three([3, 0, 0]);
    for node in [2, 2, 2, 3, 3] {
        on(&mut cluster, node, |_| {});
    }
    refuse(&mut cluster);
    assert!(n_plus_one(&cluster.state).holds());
    cluster
}

#[test]
fn a_pinned_vm_that_takes_the_last_place_is_refused_and_whose_place_it_is_is_said() {
    let mut cluster = just_enough();
    // One more fits beside them, on the first host; the next would take what they need elsewhere.
    let flavor = cluster.flavor_with(TWO, &[]);
    let beside = Command::CreateVm(cluster.request(flavor, |vm| vm.node = Some(NodeId(1))));
    assert_eq!(propose(&mut cluster, beside), Ok(()));
    let next = pinned(&mut cluster);
    let words = "without node `n1`, 1 of its 3 failover VMs would fit nowhere (vm3); they claim 2 VCPU, 1040 \
                 MEMORY_MB, 1 DISK_GB";
    assert_eq!(propose(&mut cluster, next.clone()), Err(vec![words.to_owned()]));
    cluster.policy(|policy| policy.n_plus_one = NPlusOne::Warn);
    assert_eq!(propose(&mut cluster, next), Ok(()), "a policy that warns is about failover VMs");
}

#[test]
fn many_at_once_are_judged_together_and_apply_takes_one_of_those_judged_at_once() {
    // Eight places on the other nodes, of which one must stay free.
    let mut cluster = three([1, 0, 0]);
    (0..3).for_each(|_| _ = on(&mut cluster, 1, |_| {}));
    refuse(&mut cluster);
    let flavor = cluster.flavor_with(TWO, &[]);
    let batch = |cluster: &mut Cluster, count: usize| {
        let items = (0..count).map(|_| cluster.request(flavor, |_| {})).collect();
        Command::CreateVms(CreateVms { items, atomic: true })
    };
    let (eight, seven) = (batch(&mut cluster, 8), batch(&mut cluster, 7));
    assert_eq!(against(&cluster, &eight).len(), 1);
    let judged = cluster.state.revision;
    let one = pinned(&mut cluster);
    assert_eq!(propose(&mut cluster, seven), Ok(()));
    let reply = cluster.apply(admitted_at(one.clone(), judged));
    assert!(matches!(reply, Reply::Rejected(Reason::Unadmitted { .. })), "{reply:?}");
    assert_eq!(against(&cluster, &one).len(), 1, "judged anew it is refused");
}

/// A large failover VM on n1, n2 empty, and on n3 two small ones of which one may move.
fn one_node_for_a_large_one() -> (Cluster, VmId) {
    let mut cluster = three([0, 0, 1]);
    on(&mut cluster, 3, |_| {});
    let moved = cluster.state.vms_on(NodeId(3)).next().expect("two are there").id;
    cluster.run(moved);
    (2..=3).for_each(|node| cluster.cordon(node, "test"));
    let large = cluster.create(Size { vcpus: 8, ..TWO }, failover);
    assert_eq!(cluster.placed_on(large), Some(1));
    (2..=3).for_each(|node| cluster.uncordon(node));
    refuse(&mut cluster);
    assert!(n_plus_one(&cluster.state).holds());
    (cluster, moved)
}

#[test]
fn a_rebalance_begins_no_move_to_where_failover_vms_would_go() {
    let (mut cluster, moved) = one_node_for_a_large_one();
    let begun = |cluster: &Cluster| {
        let policy = Policy::of(&cluster.state.scheduler);
        let plan = rebalance(&cluster.state, &policy, Bounds::default());
        assert_eq!(
            plan.moves.iter().map(|planned| (planned.vm, planned.to)).collect::<Vec<_>>(),
            [(moved, NodeId(2))]
        );
        due(&cluster.state, &policy, &plan).len()
    };
    assert_eq!(begun(&cluster), 0);
    cluster.policy(|policy| policy.n_plus_one = NPlusOne::Warn);
    assert_eq!(begun(&cluster), 1);
}

#[test]
fn what_takes_room_on_another_node_is_judged_too() {
    // A start of one that was given up on.
    let mut cluster = just_enough();
    (1..=3).for_each(|node| cluster.cordon(node, "test"));
    let flavor = cluster.flavor_with(TWO, &[]);
    let create = Command::CreateVm(cluster.request(flavor, |vm| vm.on_no_host = OnNoHost::Fail));
    let Command::CreateVm(request) = &create else { unreachable!() };
    let failed = request.id;
    assert_eq!(propose(&mut cluster, create), Ok(()));
    assert_eq!(cluster.placed_on(failed), None);
    assert_eq!(cluster.record(failed).status, VmStatus::Error);
    (2..=3).for_each(|node| cluster.uncordon(node));
    assert_eq!(propose(&mut cluster, start(failed)).unwrap_err().len(), 1);
    assert_eq!(cluster.record(failed).status, VmStatus::Error);

    // A move to the only node that could take a large one.
    let (mut cluster, moved) = one_node_for_a_large_one();
    let epoch = cluster.record(moved).claim.as_ref().expect("it is placed").epoch;
    let moves = vec![Relocation { vm: moved, epoch, to: NodeId(2), gain: 0 }];
    let planned = Some(1);
    let move_it = Command::MoveVms(MoveVms { moves, stop: StopMode::Force, planned, admitted: None });
    assert_eq!(propose(&mut cluster, move_it.clone()).unwrap_err().len(), 1);
    let reply = cluster.apply(move_it);
    assert!(matches!(reply, Reply::Rejected(Reason::Unadmitted { .. })), "{reply:?}");

    // An evacuation.
    let mut cluster = just_enough();
    let flavor = cluster.flavor_with(TWO, &[]);
    let request = cluster.request(flavor, |vm| vm.node = Some(NodeId(1)));
    let evacuated = request.id;
    assert_eq!(propose(&mut cluster, Command::CreateVm(request)), Ok(()));
    assert_eq!(cluster.placed_on(evacuated), Some(1));
    cluster.run(evacuated);
    cluster.set_up(1, false);
    let evacuate = Command::EvacuateVm(EvacuateVm {
        vm: evacuated,
        confirm_node_off: true,
        admitted: None,
        expected: None,
    });
    assert_eq!(propose(&mut cluster, evacuate).unwrap_err().len(), 1);
}

#[test]
fn what_takes_none_of_their_room_comes_though_there_is_too_little() {
    let mut cluster = three([4, 3, 3]);
    refuse(&mut cluster);
    let before = n_plus_one(&cluster.state);
    assert!(!before.holds());
    let flavor = cluster.flavor_with(TWO, &[]);
    // Its node is full: it waits.
    let waits = Command::CreateVm(cluster.request(flavor, |vm| vm.node = Some(NodeId(1))));
    assert_eq!(propose(&mut cluster, waits.clone()), Ok(()));
    assert_eq!(n_plus_one(&cluster.state), before);
    // Freed from there it may go where there is room.
    let Command::CreateVm(CreateVm { id: vm, .. }) = waits else { unreachable!() };
    let Command::SetVmPolicies(stays) = to_failover(vm) else { unreachable!() };
    let freed = SetVmPolicies { availability: None, any_node: true, ..stays };
    assert!(propose(&mut cluster, Command::SetVmPolicies(freed)).is_err());
    assert_eq!(cluster.record(vm).spec.node, Some(NodeId(1)));
}

/// One that needs three places, for which there is room in one piece only once a VM of n3 has gone.
fn waits_for_three() -> (Cluster, VmId) {
    let mut cluster = just_enough();
    let large = cluster.flavor_with(Size { vcpus: 6, ..TWO }, &[]);
    let request = cluster.request(large, |_| {});
    let waits = request.id;
    assert_eq!(propose(&mut cluster, Command::CreateVm(request)), Ok(()), "it fits nowhere");
    assert_eq!(cluster.placed_on(waits), None);
    assert!(cluster.record(waits).refusals.iter().all(|refusal| refusal.by == "Capacity"));
    let leaves = cluster.state.vms_on(NodeId(3)).next().expect("it has two").id;
    cluster.delete(leaves);
    assert_eq!(cluster.placed_on(waits), None);
    (cluster, waits)
}

/// One that was let in because it fitted nowhere takes no room that appears, if others need it.
#[test]
fn one_that_waits_is_held_back_and_the_record_says_for_whom() {
    let (mut cluster, waits) = waits_for_three();
    let refusals = &cluster.record(waits).refusals;
    let [refusal] = refusals.as_slice() else { panic!("{refusals:?}") };
    let words = "failover VMs need the room: with it there, without node `n1`, 2 of its 3 failover VMs would fit \
                 nowhere (vm2, vm3); they claim 4 VCPU, 2080 MEMORY_MB, 2 DISK_GB";
    assert_eq!((refusal.node, refusal.by.as_str(), refusal.message.as_str()), (NodeId(3), "NPlusOne", words));
    assert!(n_plus_one(&cluster.state).holds());
    // Said once.
    let facts = Facts { now: cluster.now, ..Facts::default() };
    assert_eq!(Placement.decide(&cluster.state, &facts), []);
    // Others that fit pass it by.
    let flavor = cluster.flavor_with(TWO, &[]);
    let beside = cluster.request(flavor, |vm| vm.node = Some(NodeId(1)));
    let small = beside.id;
    assert_eq!(propose(&mut cluster, Command::CreateVm(beside)), Ok(()));
    assert_eq!(cluster.placed_on(small), Some(1));
    // With those gone for whom the room is, it goes there.
    let is_failover = |vm: &&Vm| !vm.spec.availability.is_pinned();
    let gone: Vec<VmId> = cluster.state.vms.values().filter(is_failover).map(|vm| vm.id).take(2).collect();
    cluster.delete(gone[0]);
    assert_eq!(cluster.placed_on(waits), None);
    cluster.delete(gone[1]);
    assert!(cluster.placed_on(waits).is_some());
    assert!(n_plus_one(&cluster.state).holds());
}

#[test]
fn one_that_is_held_back_is_given_up_on_in_its_time_and_another_policy_lets_it_go() {
    let (held, waits) = waits_for_three();
    let mut cluster = held.clone();
    cluster.now = Timestamp(cluster.now.0 + cluster.state.scheduler.build_timeout_ms());
    assert_eq!(cluster.placed_on(waits), None);
    let record = cluster.record(waits);
    let fault = record.fault.as_ref().expect("it failed");
    assert_eq!(record.status, VmStatus::Error);
    assert!(fault.message.contains("NPlusOne"), "{}", fault.message);
    let mut cluster = held;
    cluster.policy(|policy| policy.n_plus_one = NPlusOne::Warn);
    assert_eq!(cluster.placed_on(waits), Some(3));
}

/// All of an atomic batch or none of it.
#[test]
fn a_batch_of_which_one_would_hurt_is_held_back_whole() {
    let mut cluster = three([3, 0, 0]);
    for node in [2, 2, 3, 3] {
        on(&mut cluster, node, |_| {});
    }
    refuse(&mut cluster);
    (1..=3).for_each(|node| cluster.cordon(node, "test"));
    let flavor = cluster.flavor_with(TWO, &[]);
    let items: Vec<CreateVm> = (0..3).map(|_| cluster.request(flavor, |_| {})).collect();
    let batch: Vec<VmId> = items.iter().map(|vm| vm.id).collect();
    assert_eq!(propose(&mut cluster, Command::CreateVms(CreateVms { items, atomic: true })), Ok(()));
    assert_eq!(cluster.placed_on(batch[0]), None);
    // Four places on these, of which three are for others.
    (2..=3).for_each(|node| cluster.uncordon(node));
    assert_eq!(cluster.placed_on(batch[0]), None);
    for vm in &batch {
        assert!(cluster.record(*vm).refusals.iter().all(|refusal| refusal.by == "NPlusOne"));
    }
    let is_failover = |vm: &&Vm| !vm.spec.availability.is_pinned();
    let gone: Vec<VmId> = cluster.state.vms.values().filter(is_failover).map(|vm| vm.id).take(2).collect();
    cluster.delete(gone[0]);
    assert_eq!(cluster.placed_on(batch[0]), None);
    cluster.delete(gone[1]);
    assert!(batch.iter().all(|vm| cluster.placed_on(*vm).is_some()));
}

/// What the leader decided before another was admitted is decided again.
#[test]
fn a_placement_of_one_that_waited_does_not_outrun_an_admission() {
    let mut cluster = three([1, 0, 0]);
    refuse(&mut cluster);
    (1..=3).for_each(|node| cluster.cordon(node, "test"));
    let create = pinned(&mut cluster);
    let Command::CreateVm(request) = &create else { unreachable!() };
    let waits = request.id;
    assert_eq!(propose(&mut cluster, create), Ok(()));
    assert_eq!(cluster.placed_on(waits), None);
    (1..=3).for_each(|node| cluster.uncordon(node));
    let decided = Placement.decide(&cluster.state, &Facts { now: cluster.now, ..Facts::default() });
    let [place @ Command::PlaceVms(_)] = decided.as_slice() else { panic!("{decided:?}") };
    let other = pinned(&mut cluster);
    assert_eq!(propose(&mut cluster, other), Ok(()));
    let Outcome::Placed { refused } = cluster.done(place.clone()).outcome else {
        panic!("it is a placement")
    };
    assert!(matches!(refused.as_slice(), [(vm, Reason::Unadmitted { .. })] if *vm == waits), "{refused:?}");
    assert!(cluster.placed_on(waits).is_some());
}

fn come_to_rest(cluster: &mut Cluster) {
    for _ in 0..100 {
        let facts = Facts { now: cluster.now, ..Facts::default() };
        let commands = Placement.decide(&cluster.state, &facts);
        if commands.is_empty() {
            return;
        }
        cluster.carry_out(commands);
    }
    panic!("it does not come to rest");
}

/// Something that takes room, or may.
fn any_command(cluster: &mut Cluster, dice: &mut Dice) -> Command {
    let vms: Vec<VmId> = cluster.state.vms.keys().copied().collect();
    let nodes: Vec<NodeId> = cluster.state.nodes.keys().copied().collect();
    let size = dice.pick(&[SMALL_VM, SMALL_VM, Size { vcpus: 5, ..SMALL_VM }]);
    let flavor = cluster.flavor_with(size, &[]);
    let some = |dice: &mut Dice| dice.pick(&vms);
    match dice.roll(if vms.is_empty() { 3 } else { 6 }) {
        0 | 1 => Command::CreateVm(cluster.request(flavor, |_| {})),
        2 => {
            let change: fn(&mut CreateVm) = if dice.once_in(2) { failover } else { |_| {} };
            let items = (0..3).map(|_| cluster.request(flavor, change)).collect();
            Command::CreateVms(CreateVms { items, atomic: dice.once_in(2) })
        }
        3 => to_failover(some(dice)),
        4 => start(some(dice)),
        _ => {
            let (vm, to) = (some(dice), dice.pick(&nodes));
            let epoch = cluster.record(vm).claim.as_ref().map(|claim| claim.epoch).unwrap_or_default();
            let moves = vec![Relocation { vm, epoch, to, gain: 0 }];
            Command::MoveVms(MoveVms { moves, stop: StopMode::Force, planned: Some(1), admitted: None })
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    /// From a state in which N+1 holds, whatever is let in leaves it holding: judged then, or too early, or never.
    #[test]
    fn n_plus_one_outlives_all_that_is_let_in(seed: u64) {
        let mut cluster = world(seed);
        let mut dice = Dice(seed ^ 11);
        cluster.policy(|policy| policy.n_plus_one = NPlusOne::Refuse);
        come_to_rest(&mut cluster);
        let mut judged = Vec::new();
        for _ in 0..12 {
            let held = n_plus_one(&cluster.state).holds();
            // Room is made until it holds, and for those that wait.
            if !held || dice.once_in(4) {
                let vms: Vec<VmId> = cluster.state.vms.keys().copied().collect();
                if !vms.is_empty() {
                    delete(&mut cluster, dice.pick(&vms));
                }
                come_to_rest(&mut cluster);
                prop_assert!(!held || n_plus_one(&cluster.state).holds(), "after a deletion");
                continue;
            }
            let command = any_command(&mut cluster, &mut dice);
            if dice.once_in(3) {
                // Judged now, proposed later.
                if judge(&cluster, &command).is_ok_and(|against| against.is_empty()) {
                    judged.push(admitted_at(command, cluster.state.revision));
                }
                continue;
            }
            let early = judged.pop();
            let never = dice.once_in(4).then(|| admitted_at(command.clone(), Revision::default()));
            _ = propose_if_taken(&mut cluster, command);
            come_to_rest(&mut cluster);
            for command in early.into_iter().chain(never) {
                cluster.apply(command);
                come_to_rest(&mut cluster);
            }
            invariant::check(&cluster.state).map_err(TestCaseError::fail)?;
            prop_assert!(n_plus_one(&cluster.state).holds(), "{:?}", n_plus_one(&cluster.state).sentences(&cluster.state));
        }
    }
}

/// It goes, and its node says so.
fn delete(cluster: &mut Cluster, vm: VmId) {
    cluster.done(Command::DeleteVm(DeleteVm { vm, expected: None }));
    if cluster.state.vms.contains_key(&vm) {
        cluster.release(vm, ReleaseCause::Deleted);
    }
}

fn propose_if_taken(cluster: &mut Cluster, command: Command) -> Option<Reply> {
    let is_steady = judge(cluster, &command).is_ok_and(|against| against.is_empty());
    is_steady.then(|| {
        let judged = cluster.state.revision;
        cluster.apply(admitted_at(command, judged))
    })
}
