//! N+1: the cluster without any one node.

use holm_model::command::{CreateVm, CreateVms};
use holm_model::flavor::Size;
use holm_model::vm::{Availability, DiskLoss};
use holm_model::{Actor, Command, NodeId, VmId};
use holm_sched::{n_plus_one, n_plus_one_after};

use crate::cluster::{Cluster, MEDIUM};

const TWO: Size = Size { vcpus: 2, memory_mib: 1024, disk_gib: 1 };

fn failover(vm: &mut CreateVm) {
    vm.availability = Availability::Failover;
    vm.policies.disk_loss = DiskLoss::Recreate;
}

fn on(cluster: &mut Cluster, node: u64, change: impl FnOnce(&mut CreateVm)) -> VmId {
    for other in (1..=3).filter(|other| *other != node) {
        cluster.cordon(other, "test");
    }
    let vm = cluster.create(TWO, change);
    assert_eq!(cluster.placed_on(vm), Some(node));
    (1..=3).for_each(|node| cluster.uncordon(node));
    vm
}

/// Three hosts of 8 vCPUs; per host so many failover VMs of 2.
fn cluster(failovers: [usize; 3]) -> Cluster {
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
    let words = "without node `n1`, 1 of its 3 failover VMs would fit nowhere; they claim 2 VCPU, 1040 MEMORY_MB, 1 DISK_GB";
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
        n_plus_one_after(&cluster.state, cluster.now, &actor, command).expect("it may be created")
    };
    assert!(!judge(&pinned).holds(), "it takes room that the others may need");
    let mut more = cluster.clone();
    let items = (0..2).map(|_| more.request(flavor, failover)).collect();
    let verdict = judge(&Command::CreateVms(CreateVms { items, atomic: false }));
    assert_eq!((verdict.vms, verdict.holds()), (10, false));
    assert_eq!(cluster.state, before);
}

#[test]
fn a_failover_vm_that_waits_is_not_held_either() {
    let mut cluster = cluster([1, 0, 0]);
    cluster.create(Size { vcpus: 9, ..TWO }, failover);
    let verdict = n_plus_one(&cluster.state);
    assert_eq!((verdict.waiting.len(), verdict.losses.len()), (1, 0));
    assert_eq!(verdict.sentences(&cluster.state), ["1 of 2 failover VMs fit nowhere even now"]);
}

#[test]
fn a_cluster_without_failover_vms_holds_all_it_has_to() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.vm(TWO);
    assert!(n_plus_one(&cluster.state).holds());
}
