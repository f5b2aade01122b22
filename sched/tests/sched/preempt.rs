//! Preemption: who is evicted for whom, and who never is.

use std::collections::BTreeSet;

use holm_model::command::{Command, PreemptVms, ReleaseCause, VacateVms};
use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::scheduling::Scheduling;
use holm_model::vm::{DiskLoss, OnNoHost, StopMode, VmStatus};
use holm_model::{GroupId, NodeId, Reply, State, VmId};
use holm_sched::controllers::Placement;
use holm_sched::{Controller, Facts, Policy, explain};

use crate::cluster::{Cluster, MEDIUM};
use crate::world::{Dice, world};

fn size(vcpus: u32) -> Size {
    Size { vcpus, memory_mib: 512, disk_gib: 1 }
}

/// A VM of so many vCPUs on this node, evictable unless `firm`.
fn resident(cluster: &mut Cluster, node: u64, vcpus: u32, priority: i32) -> VmId {
    let vm = cluster.create(size(vcpus), |vm| {
        vm.node = Some(NodeId(node));
        vm.scheduling = Scheduling { priority, preemptible: true, ..Scheduling::default() };
    });
    assert_eq!(cluster.placed_on(vm), Some(node));
    cluster.run(vm);
    vm
}

fn urgent(cluster: &mut Cluster, vcpus: u32, group: Option<GroupId>) -> VmId {
    let scheduling = Scheduling { priority: 10, group, ..Scheduling::default() };
    cluster.create(size(vcpus), |vm| vm.scheduling = scheduling)
}

fn decide(state: &State) -> Vec<Command> {
    Placement.decide(state, &Facts::default())
}

fn evictions(cluster: &Cluster) -> Option<(VmId, u64, Vec<VmId>)> {
    decide(&cluster.state).into_iter().find_map(|command| match command {
        Command::PreemptVms(PreemptVms { vm, node, victims, .. }) => Some((vm, node.0, victims)),
        _ => None,
    })
}

/// Two hosts of 8 vCPUs, preemption on.
fn cluster() -> Cluster {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    cluster.policy(|policy| policy.preemption = true);
    cluster
}

#[test]
fn nobody_is_evicted_unless_the_policy_says_so() {
    let mut cluster = cluster();
    (1..=2).for_each(|node| _ = resident(&mut cluster, node, 8, 0));
    let vm = urgent(&mut cluster, 8, None);
    assert!(evictions(&cluster).is_some());
    cluster.policy(|policy| policy.preemption = false);
    assert_eq!(evictions(&cluster), None);
    let leadership = cluster.leadership();
    let victims = cluster.state.vms_on(NodeId(1)).map(|vm| vm.id).collect();
    let command = PreemptVms { leadership, vm, node: NodeId(1), victims, stop: StopMode::Force };
    let Reply::Rejected(reason) = cluster.apply(Command::PreemptVms(command)) else { panic!("it is off") };
    assert_eq!(reason.to_string(), "preemption is off");
}

#[test]
fn the_fewest_of_the_least_priority_go_and_no_more_than_needed() {
    let mut cluster = cluster();
    // On n1 a victim has priority 5; on n2 all have less, and one of them is enough.
    resident(&mut cluster, 1, 8, 5);
    resident(&mut cluster, 2, 2, 4);
    let small = [resident(&mut cluster, 2, 1, 1), resident(&mut cluster, 2, 1, 1)];
    let large = resident(&mut cluster, 2, 4, 1);
    let vm = urgent(&mut cluster, 3, None);
    assert_eq!(evictions(&cluster), Some((vm, 2, vec![large])));
    let vm_6 = urgent(&mut cluster, 6, None);
    cluster.delete(vm);
    let (_, node, victims) = evictions(&cluster).expect("n2 can be emptied so far");
    let victims: BTreeSet<VmId> = victims.into_iter().collect();
    assert_eq!((node, victims), (2, BTreeSet::from([large, small[0], small[1]])));
    assert_eq!(cluster.record(vm_6).claim, None);
}

#[test]
fn equal_priority_same_group_and_those_that_do_not_allow_it_stay() {
    let mut cluster = cluster();
    let group = cluster.group(1, GroupPolicy::SoftAffinity, None);
    resident(&mut cluster, 1, 8, 10);
    let mate = cluster.create(size(4), |vm| {
        vm.node = Some(NodeId(2));
        vm.scheduling = Scheduling { group: Some(group), preemptible: true, ..Scheduling::default() };
    });
    assert_eq!(cluster.placed_on(mate), Some(2));
    let firm = cluster.vm_with(size(4), Some(2), OnNoHost::Queue);
    assert_eq!(cluster.placed_on(firm), Some(2));
    let vm = urgent(&mut cluster, 4, Some(group));
    assert_eq!(evictions(&cluster), None);
    let leadership = cluster.leadership();
    for (victim, node, words) in [
        (mate, 2, "it is in the same server group"),
        (firm, 2, "it is not preemptible"),
        (firm, 1, "is not on that node, or leaves it already"),
    ] {
        let victims = vec![victim];
        let command = PreemptVms { leadership, vm, node: NodeId(node), victims, stop: StopMode::Force };
        let Reply::Rejected(reason) = cluster.apply(Command::PreemptVms(command)) else { panic!("{words}") };
        assert!(reason.to_string().ends_with(words), "{reason}");
    }
}

#[test]
fn the_victim_leaves_the_room_is_kept_and_the_records_say_for_whom() {
    let mut cluster = cluster();
    let victim = resident(&mut cluster, 1, 8, 0);
    let other = resident(&mut cluster, 2, 8, 7);
    let vm = urgent(&mut cluster, 4, None);
    assert_eq!(cluster.placed_on(vm), None);
    let vacate = cluster.record(victim).recovery.vacate.clone().expect("it is told to leave");
    let name = &cluster.record(vm).name;
    assert_eq!(vacate.reason, format!("preempted by `{name}`: priority 0 gives way to 10"));
    assert_eq!(decide(&cluster.state), [], "the node has not let it go yet");
    let what: Vec<String> = cluster.events_of(vm);
    assert!(what.contains(&"preempting".to_owned()), "{what:?}");

    // While the victim leaves, nobody else takes the room, and nobody else is evicted.
    cluster.release(victim, ReleaseCause::Vacated);
    assert_eq!(cluster.record(victim).status, VmStatus::Build);
    assert_eq!(cluster.placed_on(vm), Some(1));
    let decision = cluster.record(vm).decision.clone().expect("it was placed");
    assert_eq!(decision.evicted, BTreeSet::from([victim]));
    // The victim waits for room; it has less priority and evicts nobody.
    assert_eq!(cluster.placed_on(victim), None);
    assert!(cluster.record(other).recovery.vacate.is_none());
    assert_eq!(evictions(&cluster), None);
    cluster.delete(other);
    assert_eq!(cluster.placed_on(victim), None, "it asked for n1 only");
}

#[test]
fn the_evicted_do_not_return_to_the_room_they_make_while_others_still_leave() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.policy(|policy| policy.preemption = true);
    let stays = cluster.vm_with(size(5), Some(1), OnNoHost::Queue);
    assert_eq!(cluster.placed_on(stays), Some(1));
    let (quick, slow) = (resident(&mut cluster, 1, 1, 0), resident(&mut cluster, 1, 2, 0));
    let vm = urgent(&mut cluster, 3, None);
    assert_eq!(cluster.placed_on(vm), None);
    cluster.release(quick, ReleaseCause::Vacated);
    let other = cluster.vm(size(1));
    for waiting in [quick, other] {
        assert_eq!(cluster.placed_on(waiting), None);
    }
    let message =
        format!("kept for `{}`: VMs that make room for it have not left yet", cluster.record(vm).name);
    assert_eq!(cluster.record(other).refusals[0].message, message);
    assert_eq!(decide(&cluster.state), [], "nobody is evicted twice");
    cluster.release(slow, ReleaseCause::Vacated);
    assert_eq!(cluster.placed_on(vm), Some(1));
    let evicted = &cluster.record(vm).decision.as_ref().expect("it was placed").evicted;
    assert_eq!(evicted, &BTreeSet::from([quick, slow]));
}

#[test]
fn nobody_is_evicted_for_one_that_has_room_on_a_host_not_heard_yet() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    cluster.policy(|policy| policy.preemption = true);
    (1..=2).for_each(|node| _ = resident(&mut cluster, node, 8, 0));
    let leaving = cluster.create(size(8), |vm| {
        vm.node = Some(NodeId(3));
        vm.policies.disk_loss = DiskLoss::Recreate;
    });
    assert_eq!(cluster.placed_on(leaving), Some(3));
    cluster.run(leaving);
    let vm = urgent(&mut cluster, 4, None);
    let facts = Facts { unheard: BTreeSet::from([NodeId(2), NodeId(3)]), ..Facts::default() };
    let evicts = |cluster: &Cluster| {
        let commands = Placement.decide(&cluster.state, &facts);
        commands.iter().any(|command| matches!(command, Command::PreemptVms(_)))
    };
    assert!(evicts(&cluster), "no host has room");
    let (leadership, stop) = (cluster.leadership(), StopMode::Force);
    let vacate = VacateVms { leadership, vms: vec![leaving], reason: "drain of n3".into(), stop };
    let full = cluster.clone();
    cluster.done(Command::VacateVms(vacate));
    assert!(!evicts(&cluster), "n3 will have room");
    cluster = full;
    cluster.delete(leaving);
    assert!(!evicts(&cluster), "n3 has room");
    assert_eq!(evictions(&cluster), None, "and once it is heard, it is taken");
    assert_eq!(cluster.placed_on(vm), Some(3));
}

#[test]
fn explain_names_whom_it_would_evict() {
    let mut cluster = cluster();
    let victims: Vec<VmId> = (1..=2).map(|node| resident(&mut cluster, node, 8, 0)).collect();
    let vm = urgent(&mut cluster, 4, None);
    let policy = Policy::of(&cluster.state.scheduler);
    let explanation = explain(&cluster.state, &policy, cluster.record(vm));
    let eviction = explanation.eviction.expect("one of two would do");
    assert_eq!(eviction.victims, [victims[eviction.node.0 as usize - 1]]);
    assert_eq!(evictions(&cluster), Some((vm, eviction.node.0, eviction.victims)));
}

#[test]
fn one_that_would_not_wait_evicts_nobody() {
    let mut cluster = cluster();
    (1..=2).for_each(|node| _ = resident(&mut cluster, node, 8, 0));
    let vm = cluster.create(size(4), |vm| {
        vm.scheduling = Scheduling { priority: 10, ..Scheduling::default() };
        vm.on_no_host = OnNoHost::Fail;
    });
    assert_eq!(cluster.placed_on(vm), None);
    assert_eq!(cluster.record(vm).status, VmStatus::Error);
}

/// For random clusters with preemption: apply accepts every eviction, each victim allows it and has less priority,
/// evictions come to an end, and every one made room for the VM it was for.
#[test]
fn evictions_of_random_clusters_hold_and_come_to_rest() {
    let (mut evicted, mut placed) = (0, 0);
    for seed in 0..300 {
        let mut cluster = world(seed);
        let mut dice = Dice(seed ^ 3);
        cluster.policy(|policy| policy.preemption = true);
        let all: Vec<VmId> = cluster.state.vms.keys().copied().collect();
        for id in all {
            let vm = cluster.state.vms.get_mut(&id).expect("it is there");
            vm.spec.scheduling.preemptible = !dice.once_in(4);
            vm.spec.scheduling.priority = if vm.claim.is_some() { 0 } else { dice.roll(3) as i32 };
        }
        for round in 0.. {
            assert!(round < 200, "seed {seed}: it does not come to rest");
            let commands = decide(&cluster.state);
            if commands.is_empty() {
                break;
            }
            for command in commands {
                let Command::PreemptVms(preempt) = &command else {
                    cluster.carry_out(vec![command]);
                    continue;
                };
                let (vm, victims) = (preempt.vm, preempt.victims.clone());
                let priority = cluster.record(vm).spec.scheduling.priority;
                for victim in &victims {
                    let of = &cluster.record(*victim).spec.scheduling;
                    assert!(of.preemptible && of.priority < priority, "seed {seed}");
                }
                cluster.carry_out(vec![command]);
                victims.iter().for_each(|victim| cluster.release(*victim, ReleaseCause::Vacated));
                evicted += victims.len();
                placed += usize::from(cluster.placed_on(vm).is_some());
            }
        }
    }
    assert!(evicted > 50 && placed > 30, "{evicted} evicted, {placed} placed");
}

#[test]
fn who_was_evicted_says_for_whom_until_it_runs_again() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.policy(|policy| policy.preemption = true);
    let all = Size { vcpus: 8, memory_mib: 1024, disk_gib: 1 };
    let victim = cluster.create(all, |vm| vm.scheduling.preemptible = true);
    assert_eq!(cluster.placed_on(victim), Some(1));
    cluster.run(victim);
    let urgent = cluster.create(all, |vm| vm.scheduling.priority = 5);
    cluster.placed_on(urgent);
    let leaving = cluster.record(victim).recovery.vacate.clone().expect("it is to leave");
    assert_eq!(cluster.record(victim).recovery.lost_host, None, "it is still there");
    cluster.release(victim, ReleaseCause::Vacated);
    let why = cluster.record(victim).recovery.lost_host.clone();
    assert_eq!(why.as_ref(), Some(&leaving.reason));
    assert_eq!(cluster.placed_on(urgent), Some(1));
    assert_eq!(cluster.placed_on(victim), None);
    assert_eq!(cluster.record(victim).recovery.lost_host, why, "however often it is told that nothing fits");
    cluster.delete(urgent);
    assert_eq!(cluster.placed_on(victim), Some(1));
    cluster.run(victim);
    assert_eq!(cluster.record(victim).recovery.lost_host, None);
}
