//! Atomic batches: all of one get hosts in one entry, or none does.

use std::collections::BTreeMap;

use holm_model::command::{BatchFit, Choice, CreateVm, CreateVms, DeleteVm, NoHost, PlaceVms};
use holm_model::flavor::Size;
use holm_model::policy::{BUILD_TIMEOUT_S, NPlusOne};
use holm_model::vm::{Availability, DiskLoss, OnNoHost, VmStatus, WantPower};
use holm_model::{Actor, Command, Outcome, Reason, Reply, VmId};
use holm_sched::admission::{admitted_at, objections};
use holm_sched::admitted_part::part_of;
use holm_sched::controllers::Placement;
use holm_sched::{Controller, Facts, foresee, n_plus_one, queue};

use crate::cluster::{Cluster, HostSize, MEDIUM};

/// Two of it fill a small host.
const HALF: Size = Size { vcpus: 4, memory_mib: 1024, disk_gib: 0 };
const SMALL: HostSize = HostSize { vcpus: 8, memory_mib: 8192, disk_gib: 100 };

fn batch(cluster: &mut Cluster, count: usize, on_no_host: OnNoHost) -> Vec<VmId> {
    let flavor = cluster.flavor_with(HALF, &[]);
    let items: Vec<_> =
        (0..count).map(|_| cluster.request(flavor, |vm| vm.on_no_host = on_no_host)).collect();
    match cluster.done(Command::CreateVms(CreateVms { items, atomic: true })).outcome {
        Outcome::Vms { created, .. } => created,
        other => panic!("{other:?}"),
    }
}

fn decide(cluster: &Cluster) -> Vec<Command> {
    Placement.decide(&cluster.state, &Facts { now: cluster.now, ..Facts::default() })
}

fn placed(cluster: &Cluster, vms: &[VmId]) -> usize {
    vms.iter().filter(|vm| cluster.record(**vm).claim.is_some()).count()
}

#[test]
fn where_six_of_ten_fit_none_is_placed_and_all_are_once_all_fit() {
    let mut cluster = Cluster::of(&[SMALL; 3]);
    let vms = batch(&mut cluster, 10, OnNoHost::Queue);
    let commands = decide(&cluster);
    let [Command::NoHost(told)] = commands.as_slice() else {
        panic!("one entry for all of them: {commands:?}")
    };
    assert_eq!(told.batch, Some(BatchFit { fit: 6, of: 10 }));
    cluster.carry_out(commands);
    for vm in &vms {
        let record = cluster.record(*vm);
        assert_eq!((record.status, record.claim.is_none()), (VmStatus::Build, true));
        let why = &record.fault.as_ref().expect("it waits for a reason").message;
        let expected = "6 of the 10 VMs of its batch fit, which is placed as a whole or not at all; for the next, no \
                        node fits it (3 × Capacity)";
        assert_eq!(why, expected);
        assert_eq!(
            queue::decide_again(&cluster.state, *vm, record.decision.as_ref().expect("it is kept"))
                .candidates,
            0
        );
    }
    assert_eq!(decide(&cluster), [], "what was said is not said again");
    for gone in &vms[7..9] {
        cluster.done(Command::DeleteVm(DeleteVm { vm: *gone, expected: None }));
    }
    cluster.carry_out(decide(&cluster));
    assert_eq!(placed(&cluster, &vms[..7]), 0, "seven of eight still are not all");
    // The others are none of its business: a small one goes past.
    let small = cluster.vm(Size { vcpus: 1, memory_mib: 64, disk_gib: 0 });
    assert!(cluster.placed_on(small).is_some());
    cluster.update(1, |node| {
        let more = holm_model::resources::InventoryOverride {
            allocation_ratio_thousandths: Some(16_000),
            ..Default::default()
        };
        node.inventory.insert(holm_model::ResourceClass::Vcpu, Some(more));
    });
    let commands = decide(&cluster);
    let [Command::PlaceVms(all)] = commands.as_slice() else { panic!("{commands:?}") };
    assert!(all.atomic && all.placements.len() == 8);
    let seen = cluster.state.clone();
    cluster.carry_out(commands);
    for vm in vms.iter().filter(|vm| cluster.state.vms.contains_key(*vm)) {
        let record = cluster.record(*vm);
        assert_eq!((record.claim.is_some(), record.batch), (true, None), "from now on each is for itself");
        let made = record.decision.as_ref().expect("it is kept");
        assert_eq!(&queue::decide_again(&seen, *vm, made), made);
    }
}

#[test]
fn those_that_would_not_wait_fail_together() {
    let mut cluster = Cluster::of(&[SMALL; 3]);
    let vms = batch(&mut cluster, 7, OnNoHost::Fail);
    cluster.carry_out(decide(&cluster));
    for vm in &vms {
        let record = cluster.record(*vm);
        assert_eq!((record.status, record.batch), (VmStatus::Error, None));
        assert!(record.fault.as_ref().expect("why").message.starts_with("6 of the 7"));
    }
    let vms = batch(&mut cluster, 6, OnNoHost::Fail);
    cluster.carry_out(decide(&cluster));
    assert_eq!(placed(&cluster, &vms), 6);
}

#[test]
fn a_batch_has_its_turn_when_its_first_is_due() {
    let mut cluster = Cluster::of(&[SMALL]);
    let first = batch(&mut cluster, 2, OnNoHost::Queue);
    let later = cluster.vm(HALF);
    let commands = decide(&cluster);
    let entries: Vec<(bool, usize)> = commands
        .iter()
        .filter_map(|command| match command {
            Command::PlaceVms(PlaceVms { atomic, placements, .. }) => Some((*atomic, placements.len())),
            _ => None,
        })
        .collect();
    assert_eq!(entries, [(true, 2)]);
    cluster.carry_out(commands);
    assert_eq!((placed(&cluster, &first), placed(&cluster, &[later])), (2, 0));
    // And where the batch does not fit, it holds up nobody.
    let mut cluster = Cluster::of(&[SMALL]);
    let first = batch(&mut cluster, 3, OnNoHost::Queue);
    let later = cluster.vm(HALF);
    cluster.carry_out(decide(&cluster));
    assert_eq!((placed(&cluster, &first), placed(&cluster, &[later])), (0, 1));
}

#[test]
fn an_entry_that_is_late_places_none() {
    let mut cluster = Cluster::of(&[SMALL; 2]);
    let vms = batch(&mut cluster, 4, OnNoHost::Queue);
    let commands = decide(&cluster);
    cluster.cordon(2, "meanwhile");
    let [late] = &commands[..] else { panic!("{commands:?}") };
    cluster.done(late.clone());
    assert_eq!(placed(&cluster, &vms), 0);
    assert!(vms.iter().all(|vm| cluster.record(*vm).batch.is_some()), "they still wait together");
    let [Command::NoHost(told)] = &decide(&cluster)[..] else { panic!("they do not fit") };
    assert_eq!(told.batch, Some(BatchFit { fit: 2, of: 4 }));
}

#[test]
fn all_of_a_thousand_go_in_one_entry() {
    let mut cluster = Cluster::of(&[HostSize { vcpus: 5_000, memory_mib: 2_000_000, disk_gib: 100 }; 3]);
    let before = cluster.vm(HALF);
    let vms = batch(&mut cluster, 1_000, OnNoHost::Queue);
    for _ in 0..2 {
        cluster.carry_out(decide(&cluster));
    }
    assert_eq!(placed(&cluster, &[before]), 1);
    let revisions: std::collections::BTreeSet<_> =
        vms.iter().filter_map(|vm| cluster.record(*vm).claim.as_ref()).map(|claim| claim.epoch).collect();
    assert_eq!((placed(&cluster, &vms), revisions.len()), (1_000, 1));
}

#[test]
fn a_dry_run_says_what_becomes_of_a_batch() {
    let mut cluster = Cluster::of(&[SMALL; 3]);
    let vms = batch(&mut cluster, 7, OnNoHost::Queue);
    let foreseen = foresee(&cluster.state, &vms);
    let fits: Vec<_> =
        foreseen.vms.iter().map(|(_, outcome)| outcome.as_ref().err().map(|why| why.batch)).collect();
    assert_eq!(fits, [Some(Some(BatchFit { fit: 6, of: 7 })); 7]);
    cluster.done(Command::DeleteVm(DeleteVm { vm: vms[0], expected: None }));
    let foreseen = foresee(&cluster.state, &vms[1..]);
    cluster.carry_out(decide(&cluster));
    for (vm, outcome) in foreseen.vms {
        assert_eq!(outcome.ok(), cluster.record(vm).claim.as_ref().map(|claim| claim.node));
    }
}

#[test]
fn nobody_is_evicted_and_no_host_kept_for_a_batch() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.policy(|policy| policy.preemption = true);
    let flavor = cluster.flavor_with(Size { vcpus: 8, memory_mib: 64, disk_gib: 0 }, &[]);
    let cheap =
        cluster.create_of(flavor, |vm| (vm.scheduling.preemptible, vm.scheduling.priority) = (true, -1));
    assert_eq!(cluster.placed_on(cheap), Some(1));
    cluster.run(cheap);
    batch(&mut cluster, 2, OnNoHost::Queue);
    cluster.now.0 += 40_000;
    let commands = decide(&cluster);
    let [Command::NoHost(NoHost { reserve: None, choice: Some(Choice { candidates: 0, .. }), .. })] =
        &commands[..]
    else {
        panic!("{commands:?}")
    };
}

#[test]
fn batches_of_before_are_atomic_in_their_records_only() {
    let mut cluster = Cluster::of(&[SMALL; 3]);
    let flavor = cluster.flavor_with(HALF, &[]);
    let items: Vec<_> = (0..10).map(|_| cluster.request(flavor, |_| {})).collect();
    let vms: Vec<VmId> = items.iter().map(|item| item.id).collect();
    cluster.apply_under(1, Command::CreateVms(CreateVms { items, atomic: true }));
    cluster.carry_out(decide(&cluster));
    assert_eq!(placed(&cluster, &vms), 6);
    let names: BTreeMap<_, _> = vms.iter().map(|vm| (*vm, cluster.record(*vm).batch)).collect();
    assert!(names.values().all(Option::is_none));
}

/// Three hosts of which each takes two: while four are there, any one host may go.
#[test]
fn of_one_that_need_not_come_whole_the_first_are_let_in_and_the_rest_refused_alone() {
    let mut cluster = Cluster::of(&[SMALL; 3]);
    cluster.policy(|policy| policy.n_plus_one = NPlusOne::Refuse);
    let flavor = cluster.flavor_with(HALF, &[]);
    let failover = |vm: &mut CreateVm| {
        (vm.availability, vm.policies.disk_loss) = (Availability::Failover, DiskLoss::Recreate);
    };
    let items: Vec<_> = (0..10).map(|_| cluster.request(flavor, failover)).collect();
    let actor = Actor { name: "test".into(), project: "default".into() };
    let of = |atomic, items: &[CreateVm]| {
        admitted_at(Command::CreateVms(CreateVms { items: items.to_vec(), atomic }), cluster.state.revision)
    };
    let part = |command: &Command| {
        let said = objections(&cluster.state, cluster.now, &actor, command).expect("apply takes it");
        assert!(!said.is_empty());
        part_of(&cluster.state, cluster.now, &actor, command, said)
    };
    assert_eq!(part(&of(true, &items)), None, "all or none");
    let part = part(&of(false, &items)).expect("some of it");
    assert_eq!((part.vms, part.objections.len()), (4, 3));
    let Outcome::Vms { created, refused } = cluster.done(part.command).outcome else { panic!("a batch") };
    assert_eq!(created, items[..4].iter().map(|item| item.id).collect::<Vec<_>>());
    assert!(
        refused.iter().all(|(_, reason)| matches!(reason, Reason::Unadmitted { .. })) && refused.len() == 6
    );
    cluster.carry_out(decide(&cluster));
    assert!(n_plus_one(&cluster.state).holds());
    // And now that it is full, of another nothing.
    let more: Vec<_> = (0..2).map(|_| cluster.request(flavor, failover)).collect();
    let command =
        admitted_at(Command::CreateVms(CreateVms { items: more, atomic: false }), cluster.state.revision);
    let said = objections(&cluster.state, cluster.now, &actor, &command).expect("apply takes it");
    assert_eq!(part_of(&cluster.state, cluster.now, &actor, &command, said), None);
}

#[test]
fn one_that_is_started_after_all_failed_is_for_itself() {
    let mut cluster = Cluster::of(&[SMALL; 3]);
    let vms = batch(&mut cluster, 7, OnNoHost::Fail);
    cluster.carry_out(decide(&cluster));
    assert!(matches!(cluster.power(vms[3], WantPower::On, None), Reply::Done(_)));
    assert!(cluster.placed_on(vms[3]).is_some());
    assert_eq!(placed(&cluster, &vms), 1);
}

#[test]
fn the_time_out_ends_all_of_a_batch_at_once() {
    let mut cluster = Cluster::of(&[SMALL; 3]);
    let vms = batch(&mut cluster, 7, OnNoHost::Queue);
    cluster.carry_out(decide(&cluster));
    cluster.now.0 += u64::from(BUILD_TIMEOUT_S) * 1_000;
    let commands = decide(&cluster);
    assert_eq!(commands.len(), 1, "{commands:?}");
    cluster.carry_out(commands);
    for vm in vms {
        let record = cluster.record(vm);
        assert_eq!((record.status, record.batch), (VmStatus::Error, None));
    }
}

#[test]
fn whoever_is_given_up_on_takes_its_batch_along_and_nobody_is_told_twice() {
    let mut cluster = Cluster::of(&[SMALL; 3]);
    let vms = batch(&mut cluster, 7, OnNoHost::Queue);
    let other = cluster.vm(HALF);
    let no_host = NoHost {
        leadership: cluster.leadership(),
        vm: vms[3],
        refusals: Vec::new(),
        give_up: true,
        counts: Default::default(),
        reserve: None,
        retry: false,
        choice: None,
        batch: None,
        also: vec![vms[3], vms[4]],
    };
    cluster.done(Command::NoHost(no_host));
    for vm in &vms {
        let record = cluster.record(*vm);
        assert_eq!((record.status, record.batch), (VmStatus::Error, None));
        assert_eq!(cluster.events_of(*vm).iter().filter(|event| event.contains("error")).count(), 1);
    }
    assert_eq!(cluster.placed_on(other).map(|_| ()), Some(()), "who is in no batch is none of it");
}
