//! N+1: the cluster without any one node.

use holm_model::command::{CreateVm, CreateVms, SetVmPolicies, SetVmPower, StopForDrain};
use holm_model::flavor::Size;
use holm_model::node::DrainPinned;
use holm_model::policy::NPlusOne;
use holm_model::vm::{Availability, DiskLoss, OnNoHost, StopMode, VmStatus, WantPower};
use holm_model::{Actor, Command, NodeId, Reason, Reply, Revision, VmId};
use holm_sched::{n_plus_one, n_plus_one_after};

use crate::cluster::{Cluster, MEDIUM};

pub const TWO: Size = Size { vcpus: 2, memory_mib: 1024, disk_gib: 1 };

pub fn failover(vm: &mut CreateVm) {
    vm.availability = Availability::Failover;
    vm.policies.disk_loss = DiskLoss::Recreate;
}

pub fn on(cluster: &mut Cluster, node: u64, change: impl FnOnce(&mut CreateVm)) -> VmId {
    for other in (1..=3).filter(|other| *other != node) {
        cluster.cordon(other, "test");
    }
    let vm = cluster.create(TWO, change);
    assert_eq!(cluster.placed_on(vm), Some(node));
    (1..=3).for_each(|node| cluster.uncordon(node));
    vm
}

/// Three hosts of 8 vCPUs; per host so many failover VMs of 2.
pub fn cluster(failovers: [usize; 3]) -> Cluster {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    for (node, count) in (1..).zip(failovers) {
        (0..count).for_each(|_| _ = on(&mut cluster, node, failover));
    }
    cluster
}

#[test]
fn it_holds_while_the_others_have_room_and_says_by_how_much_it_does_not() {
    // 12 vCPUs on 3 hosts of 8: without one, 16 are left.
    assert!(n_plus_one(&cluster([2, 2, 2]).state).holds());
    // Eight VMs of 2 fill two hosts to the last vCPU.
    let mut full = cluster([3, 3, 2]);
    assert!(n_plus_one(&full.state).holds());
    // The ninth does not find room when the node goes that has it.
    on(&mut full, 3, failover);
    let verdict = n_plus_one(&full.state);
    assert!(!verdict.holds());
    assert_eq!((verdict.vms, verdict.losses.len()), (9, 3));
    let first = &verdict.losses[0];
    assert_eq!((first.node, first.vms, first.stuck.len()), (NodeId(1), 3, 1));
    let words = "without node `n1`, 1 of its 3 failover VMs would fit nowhere (vm3); they claim 2 VCPU, 1040 MEMORY_MB, 1 DISK_GB";
    assert_eq!(verdict.sentences(&full.state)[0], words);
}

#[test]
fn pinned_vms_need_no_second_place_but_take_room() {
    let mut cluster = cluster([1, 0, 0]);
    for node in [1, 1, 1, 2, 2, 2, 2, 3, 3, 3] {
        on(&mut cluster, node, |_| {});
    }
    assert!(n_plus_one(&cluster.state).holds(), "one place is free, on n3");
    on(&mut cluster, 3, |_| {});
    let verdict = n_plus_one(&cluster.state);
    assert_eq!(verdict.losses.iter().map(|loss| loss.node).collect::<Vec<_>>(), [NodeId(1)]);
}

#[test]
fn a_creation_is_judged_as_if_it_were_placed_and_changes_nothing() {
    let mut cluster = cluster([3, 3, 2]);
    let actor = Actor { name: "test".into(), project: "default".into() };
    let flavor = cluster.flavor_with(TWO, &[]);
    let before = cluster.state.clone();
    let pinned = Command::CreateVm(cluster.request(flavor, |_| {}));
    let judge = |command: &Command| {
        n_plus_one_after(&cluster.state, cluster.now, &actor, command).expect("it may be created").verdict
    };
    assert!(!judge(&pinned).holds(), "it takes room that the others may need");
    let mut more = cluster.clone();
    let items = (0..2).map(|_| more.request(flavor, failover)).collect();
    let verdict = judge(&Command::CreateVms(CreateVms { items, atomic: false }));
    assert_eq!((verdict.vms, verdict.holds()), (10, false));
    assert_eq!(cluster.state, before);
}

fn holds_after(cluster: &Cluster, command: Command) -> bool {
    let actor = Actor { name: "test".into(), project: "default".into() };
    n_plus_one_after(&cluster.state, cluster.now, &actor, &command).expect("apply takes it").verdict.holds()
}

pub fn start(vm: VmId) -> Command {
    let (want, stop) = (WantPower::On, StopMode::Force);
    Command::SetVmPower(SetVmPower { vm, want, reboot: false, stop, admitted: None, expected: None })
}

pub fn to_failover(vm: VmId) -> Command {
    Command::SetVmPolicies(SetVmPolicies {
        vm,
        availability: Some(Availability::Failover),
        disk_loss: Some(DiskLoss::Recreate),
        restart_policy: None,
        start_order: None,
        start_delay_s: None,
        any_node: false,
        admitted: None,
        expected: None,
    })
}

/// Three hosts of four places: two failover VMs on the first, of which one is off, and one place elsewhere.
fn one_place_for_two() -> (Cluster, VmId) {
    let mut cluster = cluster([2, 0, 0]);
    for node in [2, 2, 2, 2, 3, 3, 3] {
        on(&mut cluster, node, |_| {});
    }
    let off = *cluster.state.vms.keys().next().expect("the first");
    cluster.switch_off(off);
    (cluster, off)
}

#[test]
fn one_that_is_off_stays_with_its_node_and_counts_when_it_is_started() {
    let (mut cluster, off) = one_place_for_two();
    let verdict = n_plus_one(&cluster.state);
    assert_eq!((verdict.vms, verdict.holds()), (1, true));
    assert!(!holds_after(&cluster, start(off)));
    // With room for both it may be.
    let pinned = cluster.state.vms_on(NodeId(2)).next().expect("it is full").id;
    cluster.delete(pinned);
    assert!(holds_after(&cluster, start(off)));
}

#[test]
fn one_that_runs_counts_from_when_failover_is_asked_of_it_not_from_when_its_node_says_so() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let vms = [1, 2, 3].map(|node| [0; 4].map(|_| on(&mut cluster, node, |_| {})));
    vms.iter().flatten().for_each(|vm| cluster.run(*vm));
    assert!(n_plus_one(&cluster.state).holds());
    assert!(!holds_after(&cluster, to_failover(vms[0][0])), "there is no second place for it");
    cluster.done(to_failover(vms[0][0]));
    assert!(!cluster.record(vms[0][0]).is_failover_in_force());
    assert_eq!(n_plus_one(&cluster.state).losses.len(), 1);
}

#[test]
fn one_that_a_drain_stopped_counts_as_its_owner_wants_it() {
    let (mut cluster, off) = one_place_for_two();
    let stopped = on(&mut cluster, 1, |_| {});
    cluster.run(stopped);
    cluster.drain(1, DrainPinned::Stop);
    let leadership = cluster.leadership();
    cluster.done(Command::StopForDrain(StopForDrain { leadership, vms: vec![stopped] }));
    assert_eq!(cluster.record(off).recovery.stopped_for, None);
    // It is started when the drain is over, and nobody is asked then.
    assert!(!holds_after(&cluster, to_failover(stopped)));
}

#[test]
fn one_that_was_given_up_on_counts_when_it_is_started_again() {
    let mut cluster = cluster([1, 0, 0]);
    let large = Size { vcpus: 9, ..TWO };
    let failed = cluster.create(large, |vm| {
        failover(vm);
        vm.on_no_host = OnNoHost::Fail;
    });
    assert_eq!(cluster.placed_on(failed), None);
    assert_eq!(cluster.record(failed).status, VmStatus::Error);
    let verdict = n_plus_one(&cluster.state);
    assert_eq!((verdict.vms, verdict.holds()), (1, true));
    assert!(!holds_after(&cluster, start(failed)));
}

/// However they come: only one of those judged at the same revision is let in.
#[test]
fn a_policy_that_refuses_takes_one_of_all_that_were_judged_at_once() {
    let mut cluster = cluster([2, 1, 0]);
    let vms: Vec<VmId> = cluster.state.vms.keys().copied().collect();
    vms.iter().for_each(|vm| cluster.switch_off(*vm));
    cluster.policy(|policy| policy.n_plus_one = NPlusOne::Refuse);
    let judged = Some(cluster.state.revision);
    let unadmitted = |reply: &Reply| matches!(reply, Reply::Rejected(Reason::Unadmitted { .. }));
    assert!(unadmitted(&cluster.power(vms[0], WantPower::On, Some(Revision(0)))), "never judged");
    assert!(matches!(cluster.power(vms[0], WantPower::On, judged), Reply::Done(_)));
    let before = cluster.state.clone();
    assert!(unadmitted(&cluster.power(vms[1], WantPower::On, judged)));
    assert_eq!(cluster.state.vms, before.vms, "a refusal changed something");
    let flavor = cluster.flavor_with(TWO, &[]);
    let created = cluster.request(flavor, |vm| {
        failover(vm);
        vm.admitted = judged;
    });
    assert!(unadmitted(&cluster.apply(Command::CreateVm(created))));
    let judged = Some(cluster.state.revision);
    assert!(matches!(cluster.power(vms[1], WantPower::On, judged), Reply::Done(_)));
    // An entry from before this was asked means what it meant.
    assert!(unadmitted(&cluster.apply(start(vms[2]))));
    assert!(matches!(cluster.apply_under(1, start(vms[2])), Reply::Done(_)));
}

#[test]
fn a_failover_vm_that_waits_is_not_held_either() {
    let mut cluster = cluster([1, 0, 0]);
    cluster.create(Size { vcpus: 9, ..TWO }, failover);
    let verdict = n_plus_one(&cluster.state);
    assert_eq!((verdict.waiting.len(), verdict.losses.len()), (1, 0));
    assert_eq!(verdict.sentences(&cluster.state), ["1 of 2 failover VMs fit nowhere even now (vm2)"]);
}

#[test]
fn a_cluster_without_failover_vms_holds_all_it_has_to() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.vm(TWO);
    assert!(n_plus_one(&cluster.state).holds());
}
