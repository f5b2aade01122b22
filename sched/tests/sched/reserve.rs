//! Nobody starves: a host is kept for a VM that has long waited.

use holm_model::command::SetVmPower;
use holm_model::flavor::Size;
use holm_model::parts::PciDevice;
use holm_model::policy::RESERVE_AFTER_S;
use holm_model::scheduling::Scheduling;
use holm_model::vm::{OnNoHost, StopMode, WantPower};
use holm_model::{Command, NodeId, Timestamp, VmId};
use holm_sched::controllers::Placement;
use holm_sched::explain::Verdict;
use holm_sched::{Controller, Facts, Policy, explain};
use proptest::prelude::*;

use crate::cluster::{Cluster, HostSize, MEDIUM, SMALL_VM};
use crate::world::Dice;

const BIG: Size = Size { vcpus: 6, memory_mib: 2048, disk_gib: 1 };
const AFTER_MS: u64 = RESERVE_AFTER_S as u64 * 1000;

/// Two hosts of 8 vCPUs with a VM of 4 on each, and a VM of 6 that has waited just long enough.
fn crowded() -> (Cluster, VmId, [VmId; 2]) {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let half = Size { vcpus: 4, memory_mib: 1024, disk_gib: 1 };
    let residents = [1, 2].map(|node| {
        let vm = cluster.vm_with(half, Some(node), OnNoHost::Queue);
        assert_eq!(cluster.placed_on(vm), Some(node));
        vm
    });
    let big = cluster.vm(BIG);
    assert_eq!(cluster.placed_on(big), None);
    assert_eq!(cluster.record(big).reserved, None, "it has just come");
    cluster.now = Timestamp(cluster.now.0 + AFTER_MS);
    assert_eq!(cluster.placed_on(big), None);
    (cluster, big, residents)
}

fn kept(cluster: &Cluster, vm: VmId) -> Option<u64> {
    cluster.record(vm).reserved.as_ref().map(|reserved| reserved.node.0)
}

#[test]
fn a_host_is_kept_once_a_vm_has_waited_and_leaves_others_what_it_does_not_need() {
    let (mut cluster, big, [first, second]) = crowded();
    let host = kept(&cluster, big).expect("one is kept");
    let (here, there) = if host == 1 { (first, second) } else { (second, first) };
    // 8 - 6 vCPUs are left over there; the other host has 4 free.
    let small: Vec<VmId> = (0..8).map(|_| cluster.vm(SMALL_VM)).collect();
    cluster.placed_on(small[0]);
    let on = |cluster: &Cluster, node| {
        let claims = small.iter().filter_map(|vm| cluster.record(*vm).claim.as_ref());
        claims.filter(|claim| claim.node.0 == node).count()
    };
    assert_eq!((on(&cluster, host), on(&cluster, 3 - host)), (2, 4));
    // Room elsewhere does not help it; the end of what was on its host does.
    cluster.delete(there);
    cluster.placed_on(small[0]);
    assert_eq!((on(&cluster, host), on(&cluster, 3 - host)), (2, 6), "the other host serves the others");
    cluster.delete(here);
    assert_eq!(cluster.placed_on(big), Some(host));
    assert_eq!(kept(&cluster, big), None);
}

#[test]
fn devices_are_kept_too_so_that_one_that_wants_two_does_not_starve() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.report_with(1, |report| {
        let gpu = PciDevice {
            alias: "gpu".into(),
            vendor: "10de".into(),
            product: "1eb8".into(),
            numa_node: Some(0),
        };
        report.offer.devices = ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]
            .map(|address| (address.to_owned(), gpu.clone()))
            .into();
    });
    let of = |cluster: &mut Cluster, count: u32| {
        let flavor = cluster.flavor_with(SMALL_VM, &[("pci_passthrough:alias", &format!("gpu:{count}"))]);
        cluster.create_of(flavor, |_| {})
    };
    let resident = of(&mut cluster, 2);
    assert_eq!(cluster.placed_on(resident), Some(1));
    let holder = of(&mut cluster, 3);
    assert_eq!(cluster.placed_on(holder), None);
    cluster.now = Timestamp(cluster.now.0 + AFTER_MS);
    assert_eq!(cluster.placed_on(holder), None);
    assert_eq!(kept(&cluster, holder), Some(1));
    // One is free, and would be missed.
    let small = of(&mut cluster, 1);
    assert_eq!(cluster.placed_on(small), None);
    let (name, said) = (&cluster.record(holder).name, &cluster.record(small).refusals[0].message);
    assert!(
        said.starts_with(&format!("kept for `{name}`: it has long waited, and would be short of ")),
        "{said}"
    );
    let plain = cluster.vm(SMALL_VM);
    assert_eq!(cluster.placed_on(plain), Some(1), "what asks for none is not held off");
    cluster.delete(resident);
    assert_eq!(cluster.placed_on(holder), Some(1));
}

#[test]
fn explain_says_for_whom_a_host_is_kept_and_what_is_left_over() {
    let (mut cluster, big, _) = crowded();
    let host = kept(&cluster, big).expect("one is kept");
    let third =
        cluster.create(Size { vcpus: 3, memory_mib: 1024, disk_gib: 1 }, |vm| vm.node = Some(NodeId(host)));
    assert_eq!(cluster.placed_on(third), None);
    let said = |cluster: &Cluster, vm: VmId| {
        let explanation = explain(&cluster.state, &Policy::of(&cluster.state.scheduler), cluster.record(vm));
        let mut hosts = explanation.hosts.into_iter();
        match hosts.find(|verdict| verdict.node.0 == host).expect("it is there").verdict {
            Verdict::Refused { by, message, .. } => format!("{by}: {message}"),
            Verdict::Fits { .. } => "fits".to_owned(),
        }
    };
    let name = &cluster.record(big).name;
    let expected =
        format!("Reserved: kept for `{name}`: it has long waited, and beside it VCPU: 3 wanted, 2 free of 8");
    assert_eq!(said(&cluster, third), expected);
    assert_eq!(cluster.record(third).refusals[host as usize - 1].by, "Reserved");
    assert_eq!(said(&cluster, big), "Capacity: VCPU: 6 wanted, 4 free of 8");
    // Greater priority goes ahead of it, as always.
    let urgent = Scheduling { priority: 1, ..Scheduling::default() };
    let urgent = cluster.create(Size { vcpus: 3, memory_mib: 1024, disk_gib: 1 }, |vm| {
        vm.node = Some(NodeId(host));
        vm.scheduling = urgent;
    });
    assert_eq!(cluster.placed_on(urgent), Some(host));
}

#[test]
fn a_host_that_is_kept_and_withheld_is_given_to_nobody() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let most = Size { vcpus: 6, memory_mib: 1024, disk_gib: 1 };
    let residents = [1, 2].map(|node| {
        let vm = cluster.vm_with(most, Some(node), OnNoHost::Queue);
        assert_eq!(cluster.placed_on(vm), Some(node));
        vm
    });
    let size = Size { vcpus: 3, ..most };
    let holder = cluster.vm(size);
    cluster.now = Timestamp(cluster.now.0 + AFTER_MS);
    assert_eq!(cluster.placed_on(holder), None);
    let host = kept(&cluster, holder).expect("one is kept");
    cluster.delete(residents[host as usize - 1]);
    let alike = cluster.vm(size);
    let facts = Facts { now: cluster.now, unheard: [NodeId(host)].into(), ..Facts::default() };
    let commands = Placement.decide(&cluster.state, &facts);
    cluster.carry_out(commands);
    assert_eq!([holder, alike].map(|vm| cluster.record(vm).claim.clone()), [None, None]);
    assert_eq!(cluster.placed_on(alike), Some(host), "once it is heard, there is room for both");
    assert_eq!(cluster.record(holder).claim.as_ref().map(|claim| claim.node.0), Some(host));
}

/// Verdicts are shared by VMs that are alike; whose turn it is they do not share.
#[test]
fn one_behind_takes_no_kept_room_because_one_like_it_was_ahead() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let half = Size { vcpus: 4, memory_mib: 512, disk_gib: 1 };
    let residents = [(); 2].map(|()| {
        let vm = cluster.vm(half);
        assert_eq!(cluster.placed_on(vm), Some(1));
        vm
    });
    let small = Size { vcpus: 2, ..half };
    let flavor = cluster.flavor_with(small, &[]);
    let ahead = cluster.create_of(flavor, |_| {});
    cluster.now = Timestamp(cluster.now.0 + 1_000);
    let holder = cluster.vm(BIG);
    // Who is ahead has given up meanwhile, and comes back when there is room again.
    cluster.policy(|policy| policy.build_timeout_s = RESERVE_AFTER_S);
    cluster.now = Timestamp(cluster.now.0 + AFTER_MS - 500);
    assert_eq!(cluster.placed_on(ahead), None);
    cluster.policy(|policy| policy.build_timeout_s = 600);
    cluster.now = Timestamp(cluster.now.0 + 500);
    assert_eq!(cluster.placed_on(holder), None);
    let behind = cluster.create_of(flavor, |_| {});
    cluster.delete(residents[0]);
    let again = SetVmPower {
        vm: ahead,
        want: WantPower::On,
        reboot: false,
        stop: StopMode::Force,
        admitted: None,
        expected: None,
    };
    cluster.done(Command::SetVmPower(again));
    let record = |cluster: &Cluster, vm| cluster.record(vm).claim.as_ref().map(|claim| claim.node.0);
    for _ in 0..3 {
        cluster.placed_on(behind);
    }
    assert_eq!(kept(&cluster, holder), Some(1));
    assert_eq!([ahead, holder, behind].map(|vm| record(&cluster, vm)), [Some(1), None, None]);
}

#[test]
fn no_host_is_kept_where_none_could_ever_do_or_nobody_would_wait_or_the_policy_says_so() {
    let huge = Size { vcpus: 9, memory_mib: 1024, disk_gib: 1 };
    let (mut cluster, big, _) = crowded();
    let never = cluster.vm(huge);
    cluster.now = Timestamp(cluster.now.0 + AFTER_MS);
    cluster.placed_on(never);
    assert_eq!(kept(&cluster, never), None);

    cluster.policy(|policy| policy.reserve_after_s = 0);
    cluster.placed_on(big);
    assert_eq!(kept(&cluster, big), None, "what was kept is given back");
    cluster.policy(|policy| policy.reserve_after_s = RESERVE_AFTER_S);
    cluster.placed_on(big);
    let before = kept(&cluster, big).expect("one is kept");
    cluster.cordon(before, "a new fan");
    cluster.placed_on(big);
    assert_eq!(kept(&cluster, big), Some(3 - before), "another, since that one cannot do");
}

#[test]
fn at_most_a_quarter_of_the_hosts_is_kept_for_the_first_in_the_queue() {
    let mut cluster = Cluster::of(&[MEDIUM; 8]);
    let full = Size { vcpus: 3, memory_mib: 512, disk_gib: 1 };
    for node in 1..=8 {
        let vm = cluster.vm_with(full, Some(node), OnNoHost::Queue);
        assert_eq!(cluster.placed_on(vm), Some(node));
    }
    let waiting: Vec<VmId> = (0..5).map(|_| cluster.vm(BIG)).collect();
    cluster.now = Timestamp(cluster.now.0 + AFTER_MS);
    cluster.placed_on(waiting[0]);
    let hosts: Vec<_> = waiting.iter().map(|vm| kept(&cluster, *vm)).collect();
    assert!(hosts[0].is_some() && hosts[1].is_some() && hosts[0] != hosts[1], "{hosts:?}");
    assert_eq!(hosts[2..], [None; 3]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    /// Small VMs come and go for ever, and every bit of room is taken at once; each VM lives for two minutes
    /// at most. The big one, that fits an empty host, is placed before its build time-out.
    #[test]
    fn a_vm_that_fits_an_empty_host_is_placed_under_a_stream_of_small_ones(seed: u64) {
        let mut dice = Dice(seed);
        let host = HostSize { vcpus: 4 + dice.roll(5), memory_mib: 16_384, disk_gib: 200 };
        let hosts = 1 + dice.roll(4) as usize;
        let mut cluster = Cluster::of(&vec![host; hosts]);
        let mut alive: Vec<(VmId, u64)> = Vec::new();
        let mut big = None;
        let begun = cluster.now.0;
        while cluster.now.0 < begun + 500_000 {
            let second = (cluster.now.0 - begun) / 1000;
            alive.retain(|(vm, until)| {
                let gone = *until <= second;
                if gone { cluster.delete(*vm); }
                !gone
            });
            if second == 120 {
                let size = Size { vcpus: host.vcpus as u32, memory_mib: 4096, disk_gib: 1 };
                big = Some(cluster.vm(size));
            }
            // More ask than there is room for.
            while cluster.state.waiting.len() < 3 {
                let size = Size { vcpus: 1 + dice.roll(2) as u32, memory_mib: 512, disk_gib: 1 };
                alive.push((cluster.vm(size), second + 20 + dice.roll(100)));
            }
            if let Some(big) = big && cluster.placed_on(big).is_some() {
                return Ok(());
            }
            if big.is_none() { cluster.placed_on(alive[0].0); }
            cluster.now = Timestamp(cluster.now.0 + 1000);
        }
        prop_assert!(false, "it starves on {} hosts of {} vCPUs", hosts, host.vcpus);
    }
}
