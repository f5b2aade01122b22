//! The weighers' raw weights, and what they make of a choice.

use holm_model::flavor::Size;
use holm_model::{NodeId, VmId};
use holm_sched::weighers::{Cpu, Ram};
use holm_sched::{Batch, Host, Policy, Request, Weigher};

use crate::cluster::{Cluster, HostSize, SMALL_VM};

fn raw(cluster: &Cluster, weigher: &dyn Weigher, vm: VmId) -> Vec<i64> {
    let request = Request::new(cluster.record(vm));
    cluster.state.nodes.values().map(|node| weigher.weigh(&request, &Host::new(node))).collect()
}

#[test]
fn raw_weights_are_what_is_free() {
    let mut cluster = Cluster::of(&[
        HostSize { vcpus: 8, memory_mib: 4096, disk_gib: 1 },
        HostSize { vcpus: 2, memory_mib: 16384, disk_gib: 1 },
    ]);
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(raw(&cluster, &Ram, vm), [4096, 16384]);
    assert_eq!(raw(&cluster, &Cpu, vm), [8, 2]);
}

#[test]
fn the_host_with_the_greatest_sum_is_chosen() {
    let host = |vcpus, memory_mib| HostSize { vcpus, memory_mib, disk_gib: 10 };
    // Per host: Ram and Cpu between 0 and 1 over all hosts, then summed.
    let cases: &[(&[HostSize], u64)] = &[
        (&[host(8, 8192), host(8, 16384)], 2),
        (&[host(16, 8192), host(8, 8192)], 1),
        // 0 + 1, 0.9 + 0.9, 1 + 0.
        (&[host(20, 2000), host(19, 2900), host(10, 3000)], 2),
        // The greatest would be the third, but the VM does not fit there.
        (&[host(1, 4096), host(2, 4096), host(1, 512)], 2),
    ];
    for (hosts, expected) in cases {
        let mut cluster = Cluster::of(hosts);
        let vm = cluster.vm(SMALL_VM);
        let policy = Policy::default();
        let chosen = Batch::new(&cluster.state, &policy).place(cluster.record(vm));
        assert_eq!(chosen, Some(NodeId(*expected)), "{hosts:?}");
    }
}

#[test]
fn a_batch_spreads_over_equal_hosts_and_counts_its_own_claims() {
    let host = HostSize { vcpus: 4, memory_mib: 4 * 1040, disk_gib: 10 };
    let mut cluster = Cluster::of(&[host; 4]);
    let vms: Vec<VmId> = (0..17).map(|_| cluster.vm(SMALL_VM)).collect();
    let policy = Policy::default();
    let mut batch = Batch::new(&cluster.state, &policy);
    let chosen: Vec<_> = vms.iter().map(|vm| batch.place(cluster.record(*vm))).collect();
    for round in chosen[..16].chunks(4) {
        let mut nodes: Vec<_> = round.iter().flatten().map(|node| node.0).collect();
        nodes.sort_unstable();
        assert_eq!(nodes, [1, 2, 3, 4], "each round of four goes to four hosts");
    }
    assert_eq!(chosen[16], None, "the cluster is full");
    let refusals = batch.refusals(cluster.record(vms[16]));
    assert_eq!(refusals.len(), 4);
    assert_eq!(refusals[0].message, "VCPU: 1 wanted, 0 free of 4");
}

#[test]
fn first_placements_on_equal_hosts_do_not_all_take_the_same_one() {
    let mut cluster = Cluster::of(&[HostSize { vcpus: 100, memory_mib: 100_000, disk_gib: 100 }; 3]);
    let policy = Policy::default();
    let mut counts = [0; 3];
    for _ in 0..60 {
        let vm = cluster.vm(Size { vcpus: 1, memory_mib: 16, disk_gib: 0 });
        // A fresh batch each time: nothing but the VM's id tells the hosts apart.
        let node = Batch::new(&cluster.state, &policy).place(cluster.record(vm)).expect("it fits");
        counts[node.0 as usize - 1] += 1;
    }
    assert!(counts.iter().all(|count| *count >= 8), "{counts:?}");
}
