//! A queue that found no more to do is looked at again on a change that could help, and only then.

use std::collections::{BTreeMap, BTreeSet};

use holm_model::command::{
    Command, FenceNode, ReleaseCause, Released, ReportImage, SetQuota, SetSchedulerPolicy, UpdateAggregate,
    UpdateGroup, VacateVms,
};
use holm_model::group::GroupPolicy;
use holm_model::policy::{BUILD_TIMEOUT_S, RESERVE_AFTER_S};
use holm_model::scheduling::Scheduling;
use holm_model::vm::{DiskLoss, ObservedState, StopMode, WantPower};
use holm_model::{NodeId, Timestamp, VmId};
use holm_sched::controllers::{Placement, RETRY_PAUSE_MS};
use holm_sched::{Controller, Facts, Rest};

use crate::cluster::{Cluster, HostSize, MEDIUM, SMALL_VM};
use crate::world::{Dice, unheard, world};

const TINY: HostSize = HostSize { vcpus: 1, memory_mib: 8192, disk_gib: 100 };

/// Decides until there is no more to do.
fn come_to_rest(cluster: &mut Cluster, facts: &Facts) -> Option<Rest> {
    for _ in 0..200 {
        let mut rest = None;
        let commands = Placement.decide_unless_at_rest(&mut rest, &cluster.state, facts);
        if commands.is_empty() {
            return rest;
        }
        cluster.carry_out(commands);
    }
    panic!("it does not come to rest");
}

/// Full hosts, VMs that wait, and one of a group that is off.
fn crowded() -> (Cluster, Vec<VmId>, VmId) {
    let mut cluster = Cluster::of(&[TINY; 3]);
    let group = cluster.group(1, GroupPolicy::AntiAffinity, None);
    let placed: Vec<VmId> = (0..3).map(|_| cluster.vm(SMALL_VM)).collect();
    cluster.placed_on(placed[0]);
    placed.iter().for_each(|vm| cluster.run(*vm));
    let waiting = cluster.vm_like(Scheduling { group: Some(group), ..Scheduling::default() });
    (cluster, placed, waiting)
}

type Change = fn(&mut Cluster, &[VmId], VmId);

#[test]
fn what_cannot_help_lets_it_rest_and_what_can_does_not() {
    let cannot: [Change; 4] = [
        |cluster, placed, _| cluster.tell(placed[0], ObservedState::Paused),
        |cluster, _, _| _ = cluster.flavor_with(SMALL_VM, &[("a", "b")]),
        |cluster, _, _| {
            let (project, limits) = ("default".to_owned(), Default::default());
            _ = cluster.done(Command::SetQuota(SetQuota { project, limits }));
        },
        |cluster, _, _| cluster.now = Timestamp(cluster.now.0 + 1_000),
    ];
    let can: [Change; 9] = [
        |cluster, placed, _| cluster.delete(placed[1]),
        |cluster, _, _| _ = cluster.vm(SMALL_VM),
        |cluster, _, waiting| cluster.delete(waiting),
        |cluster, _, _| cluster.report(2, MEDIUM),
        |cluster, _, _| cluster.uncordon(1),
        |cluster, _, _| cluster.aggregate(7, &[1], &[]),
        |cluster, _, _| cluster.policy(|policy| policy.preemption = true),
        |cluster, _, _| {
            let id = *cluster.state.groups.keys().next().expect("there is one");
            let (name, max) = (None, Some(3));
            let update = UpdateGroup { id, name, max_server_per_host: max, expected: None };
            _ = cluster.done(Command::UpdateGroup(update));
        },
        |cluster, _, _| cluster.now = Timestamp(cluster.now.0 + u64::from(RESERVE_AFTER_S) * 1000),
    ];
    for (at, (change, rests)) in
        cannot.iter().map(|of| (of, true)).chain(can.iter().map(|of| (of, false))).enumerate()
    {
        let (mut cluster, placed, waiting) = crowded();
        let facts = Facts { now: cluster.now, ..Facts::default() };
        let rest = come_to_rest(&mut cluster, &facts).expect("it rests");
        change(&mut cluster, &placed, waiting);
        let facts = Facts { now: cluster.now, ..facts };
        let still = facts.now < rest.until && Placement.sees_the_same(&rest, &cluster.state, &facts);
        assert_eq!(still, rests, "change {at}");
    }
}

#[test]
fn a_host_that_is_heard_again_and_the_end_of_patience_wake_it() {
    let (mut cluster, _, waiting) = crowded();
    cluster.policy(|policy| policy.reserve_after_s = 0);
    let facts = Facts { now: cluster.now, unheard: [NodeId(2)].into(), ..Facts::default() };
    let rest = come_to_rest(&mut cluster, &facts).expect("it rests");
    assert!(Placement.sees_the_same(&rest, &cluster.state, &facts));
    assert!(!Placement.sees_the_same(&rest, &cluster.state, &Facts { now: cluster.now, ..Facts::default() }));
    let since = cluster.record(waiting).waiting_since.expect("it waits");
    assert_eq!(rest.until, Timestamp(since.0 + u64::from(BUILD_TIMEOUT_S) * 1000));
}

/// One that lost its node and failed to build on the other is tried there again: that moment wakes it.
#[test]
fn the_moment_to_try_again_wakes_it() {
    let mut cluster = Cluster::of(&[TINY; 3]);
    cluster.cordon(3, "test");
    cluster.policy(|policy| policy.reserve_after_s = 0);
    let vm = cluster.lost_its_node(SMALL_VM);
    assert!(cluster.placed_on(vm).is_some(), "another node has room");
    cluster.fail_build(vm, "no such image");
    let facts = Facts { now: cluster.now, ..Facts::default() };
    let rest = come_to_rest(&mut cluster, &facts).expect("it rests");
    let since = cluster.record(vm).waiting_since.expect("it waits");
    assert_eq!(rest.until, Timestamp(since.0 + RETRY_PAUSE_MS));
    let tries = |at: u64| {
        let decided = Placement.decide(&cluster.state, &Facts { now: Timestamp(at), ..Facts::default() });
        decided.iter().any(|command| matches!(command, Command::NoHost(no_host) if no_host.retry))
    };
    assert_eq!((tries(rest.until.0 - 1), tries(rest.until.0)), (false, true));
}

/// For random clusters and changes: where it rests, a decision would change nothing.
#[test]
fn where_it_rests_there_is_nothing_to_decide() {
    let (mut rested, mut woken) = (0, 0);
    for seed in 0..100 {
        let mut cluster = world(seed);
        if cluster.state.vms.is_empty() {
            continue;
        }
        let mut dice = Dice(seed ^ 9);
        cluster.policy(|policy| policy.preemption = seed % 2 == 0);
        let mut facts = Facts { now: cluster.now, unheard: unheard(seed), ..Facts::default() };
        let Some(mut rest) = come_to_rest(&mut cluster, &facts) else { continue };
        for _ in 0..12 {
            change(&mut cluster, &mut dice);
            facts.now = cluster.now;
            let decided = Placement.decide(&cluster.state, &facts);
            if facts.now < rest.until && Placement.sees_the_same(&rest, &cluster.state, &facts) {
                assert_eq!(decided, [], "seed {seed}");
                rested += 1;
            } else {
                woken += 1;
                match come_to_rest(&mut cluster, &facts) {
                    Some(next) => rest = next,
                    None => break,
                }
            }
        }
    }
    assert!(rested > 100 && woken > 100, "{rested} rested, {woken} woken");
}

/// Something an operator, a node or time does.
fn change(cluster: &mut Cluster, dice: &mut Dice) {
    let vms: Vec<VmId> = cluster.state.vms.keys().copied().collect();
    let vm = vms[dice.roll(vms.len() as u64) as usize];
    let node = 1 + dice.roll(cluster.state.nodes.len() as u64);
    let is_placed = cluster.record(vm).claim.is_some();
    match dice.roll(13) {
        0 if vms.len() > 5 => cluster.delete(vm),
        1 => cluster.cordon(node, "test"),
        2 => cluster.uncordon(node),
        3 => {
            let flavor = cluster.flavor_with(SMALL_VM, &[]);
            let request = cluster.request(flavor, |_| {});
            // Some quotas are used up.
            _ = cluster.apply(Command::CreateVm(request));
        }
        4 if is_placed => cluster.run(vm),
        5 if is_placed => _ = cluster.power(vm, WantPower::Off, None),
        6 => {
            let mut record = cluster.record(vm).clone();
            record.spec.policies.disk_loss = DiskLoss::Recreate;
            cluster.state.vms.insert(vm, record);
        }
        7 | 8 => lose(cluster, dice, vm, NodeId(node)),
        9 | 10 => steer(cluster, dice, vm, NodeId(node)),
        _ => cluster.now = Timestamp(cluster.now.0 + dice.roll(100_000)),
    }
}

/// A VM loses or leaves its node, or fails there. Not all may: what is refused changes nothing.
fn lose(cluster: &mut Cluster, dice: &mut Dice, vm: VmId, node: NodeId) {
    let leadership = cluster.leadership();
    let claim = cluster.record(vm).claim.clone();
    let released = |cause| {
        let claim = claim.as_ref()?;
        Some(Command::Released(Released { node: claim.node, vm, epoch: claim.epoch, cause }))
    };
    let command = match dice.roll(4) {
        0 => Some(Command::FenceNode(FenceNode { leadership, node })),
        1 => {
            let (reason, stop) = ("test".to_owned(), StopMode::Force);
            Some(Command::VacateVms(VacateVms { leadership, vms: vec![vm], reason, stop }))
        }
        2 => released(ReleaseCause::Vacated),
        _ => released(ReleaseCause::BuildFailed { reason: "test".into() }),
    };
    _ = command.map(|command| cluster.apply(command));
}

/// An operator changes what steers placement. Not all may be changed so: what is refused changes nothing.
fn steer(cluster: &mut Cluster, dice: &mut Dice, vm: VmId, node: NodeId) {
    let command = match dice.roll(4) {
        0 => cluster.state.aggregates.keys().next().map(|id| {
            let (add_nodes, remove_nodes) = if dice.once_in(2) {
                (BTreeSet::from([node]), BTreeSet::new())
            } else {
                (BTreeSet::new(), BTreeSet::from([node]))
            };
            let (metadata, inventory) = (BTreeMap::new(), BTreeMap::new());
            let (id, name, expected) = (*id, None, None);
            let update = UpdateAggregate { id, name, add_nodes, remove_nodes, metadata, inventory, expected };
            Command::UpdateAggregate(update)
        }),
        1 => cluster.state.groups.keys().next().map(|id| {
            let max = Some(dice.roll(4) as u32);
            let update = UpdateGroup { id: *id, name: None, max_server_per_host: max, expected: None };
            Command::UpdateGroup(update)
        }),
        2 => {
            let image = cluster.record(vm).spec.image;
            Some(Command::ReportImage(ReportImage { node, image, held: dice.once_in(2) }))
        }
        _ => {
            let mut policy = cluster.state.scheduler.clone();
            policy.max_instances_per_host = 1 + dice.roll(8) as u32;
            Some(Command::SetSchedulerPolicy(SetSchedulerPolicy { policy: Some(policy), expected: None }))
        }
    };
    _ = command.map(|command| cluster.apply(command));
}
