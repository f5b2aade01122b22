//! Drains: who leaves, who stops in which order, who stays, and that it comes to rest.

use std::collections::BTreeSet;

use holm_model::command::{Command, ReleaseCause, SetNodeDrain, SetVmPolicies};
use holm_model::group::GroupPolicy;
use holm_model::node::DrainPinned;
use holm_model::vm::{Availability, DiskLoss, ObservedState, StopMode, VmStatus, WantPower};
use holm_model::{NodeId, VmId};
use holm_sched::controllers::Drain;
use holm_sched::controllers::drain::{MOVES_AT_ONCE, Next, Outlook, STOPS_AT_ONCE};
use holm_sched::select::REASONS_MAX;
use holm_sched::{Controller, Facts, Policy};

use crate::cluster::{Cluster, HostSize, MEDIUM, SMALL_VM};

const FULL: HostSize = HostSize { vcpus: 0, memory_mib: 0, disk_gib: 0 };

fn decide(cluster: &Cluster) -> Vec<Command> {
    Drain.decide(&cluster.state, &Facts { now: cluster.now, ..Facts::default() })
}

fn leaving(commands: &[Command]) -> Vec<VmId> {
    let vms = commands.iter().filter_map(|command| match command {
        Command::VacateVms(vacate) => Some(vacate.vms.clone()),
        _ => None,
    });
    vms.flatten().collect()
}

fn stopping(commands: &[Command]) -> Vec<VmId> {
    let vms = commands.iter().filter_map(|command| match command {
        Command::StopForDrain(stop) => Some(stop.vms.clone()),
        _ => None,
    });
    vms.flatten().collect()
}

/// What is said to become of each VM that is left.
fn next(cluster: &Cluster) -> Vec<(VmId, Next)> {
    let policy = Policy::of(&cluster.state.scheduler);
    let outlook = Outlook::new(&cluster.state, &policy, &Default::default());
    outlook.left.iter().map(|left| (left.vm.id, left.next.clone())).collect()
}

/// Running VMs on node 1, whatever else there is.
fn on_first(cluster: &mut Cluster, count: usize, availability: Availability, start_order: i32) -> Vec<VmId> {
    let others: Vec<u64> = cluster.state.nodes.keys().map(|node| node.0).filter(|node| *node != 1).collect();
    others.iter().for_each(|node| cluster.cordon(*node, "not yet"));
    let vms: Vec<_> = (0..count)
        .map(|_| {
            let vm = cluster.create(SMALL_VM, |vm| {
                vm.availability = availability;
                vm.policies.start_order = start_order;
                if availability == Availability::Failover {
                    vm.policies.disk_loss = DiskLoss::Recreate;
                }
            });
            assert_eq!(cluster.placed_on(vm), Some(1));
            cluster.run(vm);
            vm
        })
        .collect();
    for node in others {
        cluster.uncordon(node);
    }
    vms
}

#[test]
fn failover_vms_leave_a_few_at_a_time_until_none_is_left() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let vms = on_first(&mut cluster, 6, Availability::Failover, 0);
    assert_eq!(decide(&cluster), [], "nothing is drained");
    cluster.drain(1, DrainPinned::Keep);

    let commands = decide(&cluster);
    let [Command::VacateVms(vacate)] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!(vacate.vms, vms[..MOVES_AT_ONCE]);
    assert_eq!((vacate.reason.as_str(), vacate.stop), ("drain of n1", StopMode::Graceful { timeout_s: 30 }));
    cluster.carry_out(commands);
    assert_eq!(decide(&cluster), [], "as many as may leave at once");

    cluster.release(vms[0], ReleaseCause::Vacated);
    let commands = decide(&cluster);
    assert_eq!(leaving(&commands), [vms[4]]);
    cluster.carry_out(commands);
    for vm in &vms[1..5] {
        cluster.release(*vm, ReleaseCause::Vacated);
    }
    let commands = decide(&cluster);
    assert_eq!(leaving(&commands), [vms[5]]);
    cluster.carry_out(commands);
    cluster.release(vms[5], ReleaseCause::Vacated);
    assert_eq!((decide(&cluster), next(&cluster)), (vec![], vec![]));
    for vm in vms {
        assert_ne!(cluster.placed_on(vm), Some(1));
    }
}

#[test]
fn a_vm_with_nowhere_to_go_stays_with_the_reason() {
    let mut cluster = Cluster::of(&[MEDIUM, FULL, FULL]);
    let vms = on_first(&mut cluster, 2, Availability::Failover, 0);
    cluster.drain(1, DrainPinned::Stop);
    assert_eq!(decide(&cluster), []);
    assert_eq!(next(&cluster), [(vms[0], Next::Stuck), (vms[1], Next::Stuck)]);
    let policy = Policy::of(&cluster.state.scheduler);
    let outlook = Outlook::new(&cluster.state, &policy, &Default::default());
    let refusals = outlook.reasons(&outlook.left[0]).refusals;
    let by: Vec<_> = refusals.iter().map(|refusal| (refusal.node.0, refusal.by.as_str())).collect();
    assert_eq!(by, [(1, "ComputeStatus"), (2, "Capacity"), (3, "Capacity")]);
}

#[test]
fn no_more_leave_than_there_is_room_for_those_on_their_way_counted() {
    let two = HostSize { vcpus: 2, memory_mib: 8192, disk_gib: 100 };
    let mut cluster = Cluster::of(&[MEDIUM, two, FULL]);
    let vms = on_first(&mut cluster, 3, Availability::Failover, 0);
    cluster.drain(1, DrainPinned::Stop);
    let commands = decide(&cluster);
    assert_eq!(leaving(&commands), vms[..2]);
    cluster.carry_out(commands);
    assert_eq!(leaving(&decide(&cluster)), [], "their room is theirs before they have it");
    assert_eq!(next(&cluster)[2], (vms[2], Next::Stuck));
}

#[test]
fn a_node_that_may_be_dead_is_nowhere_to_go() {
    let mut cluster = Cluster::of(&[MEDIUM, MEDIUM, FULL]);
    let vms = on_first(&mut cluster, 1, Availability::Failover, 0);
    cluster.drain(1, DrainPinned::Keep);
    let facts = Facts { now: cluster.now, unheard: [NodeId(2)].into(), ..Facts::default() };
    assert_eq!(Drain.decide(&cluster.state, &facts), []);
    assert_eq!(leaving(&decide(&cluster)), vms);
}

#[test]
fn pinned_vms_stop_in_the_reverse_of_the_order_in_which_they_start() {
    let mut cluster =
        Cluster::of(&[HostSize { vcpus: 64, memory_mib: 65_536, disk_gib: 100 }, MEDIUM, MEDIUM]);
    let database = on_first(&mut cluster, 1, Availability::Pinned, -1);
    let web = on_first(&mut cluster, STOPS_AT_ONCE + 1, Availability::Pinned, 7);
    cluster.drain(1, DrainPinned::Stop);

    let commands = decide(&cluster);
    assert_eq!((stopping(&commands), leaving(&commands)), (web[..STOPS_AT_ONCE].to_vec(), vec![]));
    cluster.carry_out(commands);
    assert_eq!(decide(&cluster), []);
    for vm in &web[..STOPS_AT_ONCE] {
        cluster.tell(*vm, ObservedState::Stopped);
    }
    let commands = decide(&cluster);
    assert_eq!(stopping(&commands), [web[STOPS_AT_ONCE]], "the database waits for the last of them");
    cluster.carry_out(commands);
    assert_eq!(decide(&cluster), []);
    cluster.tell(web[STOPS_AT_ONCE], ObservedState::Stopped);
    let commands = decide(&cluster);
    assert_eq!(stopping(&commands), database);
    cluster.carry_out(commands);
    assert_eq!(next(&cluster), [(database[0], Next::Stopping)]);
    cluster.tell(database[0], ObservedState::Stopped);
    assert_eq!((decide(&cluster), next(&cluster)), (vec![], vec![]));

    // Open again, they are started.
    cluster.uncordon(1);
    assert_eq!(cluster.record(database[0]).power.want, WantPower::On);
}

#[test]
fn pinned_vms_that_are_kept_run_on() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let pinned = on_first(&mut cluster, 1, Availability::Pinned, 0);
    let failover = on_first(&mut cluster, 1, Availability::Failover, 0);
    cluster.drain(1, DrainPinned::Keep);
    let commands = decide(&cluster);
    assert_eq!((leaving(&commands), stopping(&commands)), (failover.clone(), vec![]));
    cluster.carry_out(commands);
    assert_eq!(next(&cluster), [(pinned[0], Next::Kept), (failover[0], Next::Leaving)]);
}

#[test]
fn what_is_off_stays_where_its_disk_is() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let vms = on_first(&mut cluster, 1, Availability::Failover, 0);
    cluster.tell(vms[0], ObservedState::GuestOff);
    assert_eq!(cluster.record(vms[0]).status, VmStatus::Shutoff);
    cluster.drain(1, DrainPinned::Stop);
    assert_eq!((decide(&cluster), next(&cluster)), (vec![], vec![]));
}

#[test]
fn a_cancelled_drain_asks_for_nothing_more_and_one_of_a_node_that_is_down_waits() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    on_first(&mut cluster, 6, Availability::Failover, 0);
    cluster.drain(1, DrainPinned::Keep);
    cluster.set_up(1, false);
    assert_eq!(decide(&cluster), []);
    cluster.set_up(1, true);
    let commands = decide(&cluster);
    cluster.carry_out(commands);
    cluster.done(Command::SetNodeDrain(SetNodeDrain { node: NodeId(1), drain: None, expected: None }));
    assert_eq!(decide(&cluster), []);
}

/// Running failover VMs of a group that is kept on one host, on node 1.
fn group_on_first(cluster: &mut Cluster, count: usize) -> Vec<VmId> {
    let group = cluster.group(1, GroupPolicy::Affinity, None);
    let others: Vec<u64> = cluster.state.nodes.keys().map(|node| node.0).filter(|node| *node != 1).collect();
    others.iter().for_each(|node| cluster.cordon(*node, "not yet"));
    let vms: Vec<_> = (0..count)
        .map(|_| {
            let vm = cluster.create(SMALL_VM, |vm| {
                vm.availability = Availability::Failover;
                vm.policies.disk_loss = DiskLoss::Recreate;
                vm.scheduling.group = Some(group);
            });
            assert_eq!(cluster.placed_on(vm), Some(1));
            cluster.run(vm);
            vm
        })
        .collect();
    others.into_iter().for_each(|node| cluster.uncordon(node));
    vms
}

#[test]
fn a_group_that_is_kept_on_one_host_leaves_it_as_a_whole_and_is_together_again_elsewhere() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let vms = group_on_first(&mut cluster, MOVES_AT_ONCE + 1);
    cluster.drain(1, DrainPinned::Keep);
    let commands = decide(&cluster);
    assert_eq!(leaving(&commands), vms, "more than may else leave at once");
    cluster.carry_out(commands);
    assert!(next(&cluster).iter().all(|(_, next)| *next == Next::Leaving), "{:?}", next(&cluster));
    for vm in &vms {
        assert_eq!(cluster.record(*vm).claim.as_ref().map(|claim| claim.node), Some(NodeId(1)));
        cluster.release(*vm, ReleaseCause::Vacated);
    }
    let to: BTreeSet<_> = vms.iter().map(|vm| cluster.placed_on(*vm)).collect();
    assert_eq!(to.len(), 1, "{to:?}");
    assert!(!to.contains(&Some(1)) && !to.contains(&None), "{to:?}");
    assert_eq!((decide(&cluster), next(&cluster)), (vec![], vec![]));
}

#[test]
fn a_group_of_which_one_cannot_leave_stays_and_says_who_keeps_it() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let vms = group_on_first(&mut cluster, 2);
    let keeper = vms[1];
    let pinned = SetVmPolicies {
        vm: keeper,
        availability: Some(Availability::Pinned),
        disk_loss: None,
        restart_policy: None,
        start_order: None,
        start_delay_s: None,
        admitted: None,
        any_node: false,
        expected: None,
    };
    cluster.done(Command::SetVmPolicies(pinned));
    cluster.drain(1, DrainPinned::Keep);
    assert_eq!(decide(&cluster), []);
    assert_eq!(next(&cluster)[0], (vms[0], Next::Stuck));
    let policy = Policy::of(&cluster.state.scheduler);
    let outlook = Outlook::new(&cluster.state, &policy, &Default::default());
    let refusals = outlook.reasons(&outlook.left[0]).refusals;
    let told = refusals.iter().find(|refusal| refusal.node == NodeId(1)).expect("the drained node tells");
    let name = &cluster.record(keeper).name;
    assert!(told.message.contains(name) && told.message.contains("--availability failover"), "{told:?}");
}

/// Of more hosts than are told about, the last is the drained one and refused with many.
#[test]
fn of_many_hosts_the_counts_are_of_all_and_the_drained_node_tells() {
    let mut cluster = Cluster::of(&[MEDIUM; 40]);
    let group = cluster.group(1, GroupPolicy::Affinity, None);
    (1..40).for_each(|node| cluster.cordon(node, "test"));
    for availability in [Availability::Failover, Availability::Pinned] {
        let vm = cluster.create(SMALL_VM, |vm| {
            vm.availability = availability;
            vm.policies.disk_loss = DiskLoss::Recreate;
            vm.scheduling.group = Some(group);
        });
        assert_eq!(cluster.placed_on(vm), Some(40));
        cluster.run(vm);
    }
    cluster.drain(40, DrainPinned::Keep);
    let policy = Policy::of(&cluster.state.scheduler);
    let outlook = Outlook::new(&cluster.state, &policy, &Default::default());
    let reasons = outlook.reasons(&outlook.left[0]);
    let counts: Vec<_> = reasons.counts.iter().map(|(by, count)| (by.as_str(), *count)).collect();
    assert_eq!(counts, [("ComputeStatus", 39), ("ServerGroup", 1)]);
    assert_eq!(reasons.refusals.len(), REASONS_MAX);
    let told: Vec<_> = reasons.refusals.iter().filter(|refusal| refusal.by == "ServerGroup").collect();
    assert!(matches!(told[..], [last] if last.node == NodeId(40)), "{told:?}");
}

#[test]
fn a_group_for_which_no_host_has_room_stays_as_a_whole() {
    let two = HostSize { vcpus: 2, memory_mib: 8192, disk_gib: 100 };
    let mut cluster = Cluster::of(&[MEDIUM, two, two]);
    let vms = group_on_first(&mut cluster, 3);
    cluster.drain(1, DrainPinned::Keep);
    assert_eq!(decide(&cluster), []);
    assert!(next(&cluster).iter().all(|(vm, next)| vms.contains(vm) && *next == Next::Stuck));
}
