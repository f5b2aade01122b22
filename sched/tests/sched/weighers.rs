//! The weighers' raw weights, their multipliers, and what they make of a choice.

use std::collections::BTreeSet;

use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::policy::WEIGHERS;
use holm_model::scheduling::{Effect, Scheduling, Taint, Toleration};
use holm_model::{NodeId, VmId};
use holm_sched::request::Placed;
use holm_sched::{Batch, Host, Policy, Request, weighers};

use crate::cluster::{Cluster, HostSize, MEDIUM, SMALL_VM};

pub fn raw(cluster: &Cluster, name: &str, vm: VmId) -> Vec<i64> {
    let all = weighers::all();
    let weigher = all.iter().find(|weigher| weigher.name() == name).expect("it exists");
    let request = Request::new(&cluster.state, &Placed::new(), cluster.record(vm));
    let raw: Vec<i64> = Host::all(&cluster.state).iter().map(|host| weigher.weigh(&request, host)).collect();
    assert!(
        weigher.applies(&request) || raw.iter().all(|other| *other == raw[0]),
        "it does not tell hosts apart"
    );
    raw
}

/// The policy with nothing but these weighers.
pub fn only(cluster: &mut Cluster, weighers: &[(&str, i64)]) {
    cluster.policy(|policy| {
        policy.weighers = weighers.iter().map(|(name, by)| ((*name).to_owned(), *by)).collect();
    });
}

/// Scores of the best hosts, the chosen first.
fn scores(cluster: &Cluster, vm: VmId) -> Vec<(u64, i64)> {
    let policy = Policy::of(&cluster.state.scheduler);
    let chosen = Batch::new(&cluster.state, &policy).place(cluster.record(vm)).expect("it fits");
    assert_eq!(chosen.node, chosen.scores[0].node);
    chosen.scores.iter().map(|score| (score.node.0, score.score_millionths)).collect()
}

#[test]
fn every_weigher_of_the_policy_exists_in_its_order() {
    let names: Vec<_> = weighers::all().iter().map(|weigher| weigher.name()).collect();
    let expected: Vec<_> = WEIGHERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, expected);
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#ramweigher>, `#cpuweigher`, `#diskweigher`
#[test]
fn ram_cpu_and_disk_weigh_what_is_free() {
    let mut cluster = Cluster::of(&[
        HostSize { vcpus: 8, memory_mib: 4096, disk_gib: 7 },
        HostSize { vcpus: 2, memory_mib: 16384, disk_gib: 50 },
        HostSize { vcpus: 0, memory_mib: 0, disk_gib: 0 },
    ]);
    let placed = cluster.vm_with(SMALL_VM, Some(1), Default::default());
    assert_eq!(cluster.placed_on(placed), Some(1));
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(raw(&cluster, "Ram", vm), [4096 - 1040, 16384, 0]);
    assert_eq!(raw(&cluster, "Cpu", vm), [7, 2, 0]);
    assert_eq!(raw(&cluster, "Disk", vm), [6, 50, 0]);
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#ioopsweigher> and `#numinstancesweigher`
#[test]
fn io_ops_and_num_instances_weigh_builds_and_vms() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let placed: Vec<VmId> = (0..3).map(|_| cluster.vm_with(SMALL_VM, Some(1), Default::default())).collect();
    placed.iter().for_each(|vm| assert_eq!(cluster.placed_on(*vm), Some(1)));
    cluster.run(placed[0]);
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(raw(&cluster, "IoOps", vm), [2, 0]);
    assert_eq!(raw(&cluster, "NumInstances", vm), [3, 0]);
    only(&mut cluster, &[("IoOps", -1000)]);
    assert_eq!(scores(&cluster, vm), [(2, 0), (1, -1_000_000)], "the default keeps away from builds");
    only(&mut cluster, &[("NumInstances", 1000)]);
    assert_eq!(scores(&cluster, vm), [(1, 1_000_000), (2, 0)], "positive packs");
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#servergroupsoftaffinityweigher> and
/// `#servergroupsoftantiaffinityweigher`
#[test]
fn soft_groups_weigh_their_members_on_the_host() {
    for (n, policy, name, expected) in [
        (1, GroupPolicy::SoftAffinity, "SoftAffinity", [2, 0]),
        (2, GroupPolicy::SoftAntiAffinity, "SoftAntiAffinity", [-2, 0]),
    ] {
        let mut cluster = Cluster::of(&[MEDIUM; 2]);
        let group = cluster.group(n, policy, None);
        let member = || Scheduling { group: Some(group), ..Scheduling::default() };
        for _ in 0..2 {
            let vm = cluster.create(SMALL_VM, |vm| {
                vm.node = Some(NodeId(1));
                vm.scheduling = member();
            });
            assert_eq!(cluster.placed_on(vm), Some(1));
        }
        let (inside, outside) = (cluster.vm_like(member()), cluster.vm(SMALL_VM));
        assert_eq!(raw(&cluster, name, inside), expected);
        assert_eq!(raw(&cluster, name, outside), [0, 0], "other VMs do not mind");
        let other = if name == "SoftAffinity" { "SoftAntiAffinity" } else { "SoftAffinity" };
        assert_eq!(raw(&cluster, other, inside), [0, 0], "nor does the other policy");
    }
}

#[test]
fn soft_groups_count_the_batch_too() {
    for (policy, spread) in [(GroupPolicy::SoftAffinity, 1), (GroupPolicy::SoftAntiAffinity, 4)] {
        let mut cluster = Cluster::of(&[MEDIUM; 4]);
        only(&mut cluster, &[("SoftAffinity", 1000), ("SoftAntiAffinity", 1000)]);
        let group = cluster.group(1, policy, None);
        let vms: Vec<VmId> = (0..4)
            .map(|_| cluster.vm_like(Scheduling { group: Some(group), ..Scheduling::default() }))
            .collect();
        let nodes: BTreeSet<_> = vms.iter().map(|vm| cluster.placed_on(*vm)).collect();
        assert_eq!(nodes.len(), spread, "{policy:?}");
    }
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#buildfailureweigher>
#[test]
fn build_failure_outweighs_everything_else() {
    let mut cluster = Cluster::of(&[MEDIUM, HostSize { vcpus: 2, memory_mib: 1100, disk_gib: 2 }]);
    let fails = cluster.vm_with(SMALL_VM, Some(1), Default::default());
    assert_eq!(cluster.placed_on(fails), Some(1));
    cluster.fail_build(fails, "no luck");
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(raw(&cluster, "BuildFailure", vm), [1, 0]);
    assert_eq!(scores(&cluster, vm)[0].0, 2, "the far smaller host is chosen");
    let again = cluster.vm_with(SMALL_VM, Some(1), Default::default());
    assert_eq!(cluster.placed_on(again), Some(1));
    cluster.run(again);
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(raw(&cluster, "BuildFailure", vm), [0, 0], "one success clears it");
}

/// <https://kubernetes.io/docs/reference/scheduling/config/>, `ImageLocality`
#[test]
fn image_locality_weighs_the_bytes_that_are_there() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(raw(&cluster, "ImageLocality", vm), [1000, 0]);
    only(&mut cluster, &[("ImageLocality", 1000)]);
    assert_eq!(scores(&cluster, vm), [(1, 1_000_000), (2, 0)]);
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#hypervisorversionweigher>
#[test]
fn hypervisor_version_prefers_the_newer() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    for (n, version) in [(1, "v53.0"), (2, "v9.12.1"), (3, "")] {
        cluster.report_with(n, |report| report.hypervisor.version = version.into());
    }
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(raw(&cluster, "HypervisorVersion", vm), [53_000_000, 9_012_001, 0]);
}

/// Our own: the load a node reports is no weigher of Nova's.
#[test]
fn load_counts_against_the_host_and_is_off_by_default() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    cluster.report_with(1, |report| report.load_thousandths = 1500);
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(raw(&cluster, "Load", vm), [1500, 0]);
    only(&mut cluster, &[("Load", 2000)]);
    assert_eq!(scores(&cluster, vm), [(2, 0), (1, -2_000_000)]);
    only(&mut cluster, &[("Load", 0)]);
    assert_eq!(scores(&cluster, vm).iter().map(|(_, score)| *score).collect::<Vec<_>>(), [0, 0]);
}

/// <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>: `PreferNoSchedule` is a
/// preference, counted per taint that is not tolerated.
#[test]
fn prefer_no_schedule_counts_untolerated_taints() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let taint = |key: &str, effect| Taint { key: key.into(), value: String::new(), effect };
    cluster.update(1, |node| {
        node.taints = Some(BTreeSet::from([
            taint("old", Effect::PreferNoSchedule),
            taint("slow", Effect::PreferNoSchedule),
            taint("gpu", Effect::NoSchedule),
        ]));
    });
    let tolerate = |key: Option<&str>| Scheduling {
        tolerations: vec![Toleration { key: key.map(str::to_owned), value: None, effect: None }],
        ..Scheduling::default()
    };
    let cases = [(Scheduling::default(), 2), (tolerate(Some("old")), 1), (tolerate(None), 0)];
    for (scheduling, expected) in cases {
        let vm = cluster.vm_like(scheduling);
        assert_eq!(raw(&cluster, "PreferNoSchedule", vm), [expected, 0]);
    }
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#weights>: normalised weights times multipliers, summed.
/// How is said by `normalize` in Nova's `weights.py`: from the least to the greatest to 0..1, equal weights are 0; its RAM,
/// CPU, disk and I/O weighers take 0 for the least (`minval = 0`).
#[test]
fn scores_are_novas_normalisation_times_multipliers() {
    let host = |vcpus, memory_mib| HostSize { vcpus, memory_mib, disk_gib: 10 };
    let mut cluster = Cluster::of(&[host(4, 2000), host(8, 3000), host(6, 4000)]);
    let vm = cluster.vm(SMALL_VM);
    type Multipliers = &'static [(&'static str, i64)];
    type Scores = &'static [(u64, i64)];
    let cases: &[(Multipliers, Scores)] = &[
        (&[("Ram", 1000)], &[(3, 1_000_000), (2, 750_000), (1, 500_000)]),
        (&[("Ram", -1000)], &[(1, -500_000), (2, -750_000), (3, -1_000_000)]),
        (&[("Ram", 1000), ("Cpu", 1000)], &[(2, 1_750_000), (3, 1_750_000), (1, 1_000_000)]),
        (&[("Ram", 500), ("Cpu", 3000)], &[(2, 3_375_000), (3, 2_750_000), (1, 1_750_000)]),
    ];
    for (weighers, expected) in cases {
        only(&mut cluster, weighers);
        let mut got = scores(&cluster, vm);
        // Equal scores may come in either order.
        got.sort_by_key(|(node, score)| (-score, *node));
        assert_eq!(got, *expected, "{weighers:?}");
    }
    only(&mut cluster, &[]);
    assert!(scores(&cluster, vm).iter().all(|(_, score)| *score == 0), "no weigher, no preference");
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#ramweigher>: an aggregate's value goes before the
/// setting, of several the least. What is no number voids the host's values: `get_weight_multiplier` in Nova's
/// `scheduler/utils.py`. Nova reads `nan` and `1e3` as floats and knows no bound; here apply refuses them, and what is
/// stored since before is void or held within the policy's bound.
#[test]
fn aggregates_override_multipliers_for_their_hosts() {
    let host = |memory_mib| HostSize { vcpus: 8, memory_mib, disk_gib: 10 };
    let cases: &[(&[&str], i64)] = &[
        (&[], 1_000_000),
        (&["2.5"], 2_500_000),
        (&["2.5", "0.5"], 500_000),
        (&["-1"], -1_000_000),
        (&["0"], 0),
        // One that is no number makes the host's overrides void.
        (&["2.5", "much"], 1_000_000),
        (&["nan"], 1_000_000),
        (&["1e3"], 1_000_000),
        (&["9999999999999"], 1_000_000_000_000),
    ];
    for (overrides, expected) in cases {
        let mut cluster = Cluster::of(&[host(2000), host(4000)]);
        only(&mut cluster, &[("Ram", 1000)]);
        let vm = cluster.vm(SMALL_VM);
        for (n, value) in (1..).zip(*overrides) {
            cluster.aggregate_of_old(n, &[2], &[("ram_weight_multiplier", value)]);
        }
        let got = scores(&cluster, vm);
        let second = got.iter().find(|(node, _)| *node == 2).expect("it fits").1;
        assert_eq!(second, *expected, "{overrides:?}");
        assert!(got.contains(&(1, 500_000)), "the other host keeps the policy's: {got:?}");
    }
}

#[test]
fn an_aggregate_can_switch_a_weigher_on_that_the_policy_has_off() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    only(&mut cluster, &[]);
    cluster.report_with(2, |report| report.load_thousandths = 900);
    cluster.aggregate(1, &[1, 2], &[("load_weight_multiplier", "1.0")]);
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(scores(&cluster, vm), [(1, 0), (2, -1_000_000)]);
}

#[test]
fn the_host_with_the_greatest_sum_is_chosen() {
    let host = |vcpus, memory_mib| HostSize { vcpus, memory_mib, disk_gib: 10 };
    // Per host: Ram and Cpu as parts of the greatest, then summed.
    let cases: &[(&[HostSize], u64)] = &[
        (&[host(8, 8192), host(8, 16384)], 2),
        (&[host(16, 8192), host(8, 8192)], 1),
        // 0.67 + 1, 0.97 + 0.95, 1 + 0.5.
        (&[host(20, 2000), host(19, 2900), host(10, 3000)], 2),
        // The greatest would be the third, but the VM does not fit there.
        (&[host(1, 4096), host(2, 4096), host(1, 512)], 2),
    ];
    for (hosts, expected) in cases {
        let mut cluster = Cluster::of(hosts);
        only(&mut cluster, &[("Ram", 1000), ("Cpu", 1000)]);
        let vm = cluster.vm(SMALL_VM);
        assert_eq!(scores(&cluster, vm)[0].0, *expected, "{hosts:?}");
    }
}

#[test]
fn a_choice_keeps_the_scores_of_three_runners_up() {
    let host = |memory_mib| HostSize { vcpus: 8, memory_mib, disk_gib: 10 };
    let mut cluster = Cluster::of(&[host(2000), host(3000), host(6000), host(5000), host(500), host(4000)]);
    only(&mut cluster, &[("Ram", 1000)]);
    let vm = cluster.vm(SMALL_VM);
    let policy = Policy::of(&cluster.state.scheduler);
    let chosen = Batch::new(&cluster.state, &policy).place(cluster.record(vm)).expect("it fits");
    assert_eq!(chosen.candidates, 5, "the fifth is too small");
    let expected = [(3, 1_000_000), (4, 833_333), (6, 666_666), (2, 500_000)];
    assert_eq!(scores(&cluster, vm), expected);
}

#[test]
fn a_batch_spreads_over_equal_hosts_and_counts_its_own_claims() {
    let host = HostSize { vcpus: 4, memory_mib: 4 * 1040, disk_gib: 10 };
    let mut cluster = Cluster::of(&[host; 4]);
    only(&mut cluster, &[("Ram", 1000), ("Cpu", 1000)]);
    let vms: Vec<VmId> = (0..17).map(|_| cluster.vm(SMALL_VM)).collect();
    let policy = Policy::of(&cluster.state.scheduler);
    let mut batch = Batch::new(&cluster.state, &policy);
    let chosen: Vec<_> = vms.iter().map(|vm| batch.place(cluster.record(*vm))).collect();
    for round in chosen[..16].chunks(4) {
        let mut nodes: Vec<_> = round.iter().flatten().map(|chosen| chosen.node.0).collect();
        nodes.sort_unstable();
        assert_eq!(nodes, [1, 2, 3, 4], "each round of four goes to four hosts");
    }
    assert_eq!(chosen[16], None, "the cluster is full");
    let refusals = batch.refusals(cluster.record(vms[16]));
    assert_eq!(refusals.len(), 4);
    assert_eq!(refusals[0].message, "VCPU: 1 wanted, 0 free of 4; MEMORY_MB: 1040 wanted, 0 free of 4160");
}

#[test]
fn first_placements_on_equal_hosts_do_not_all_take_the_same_one() {
    let mut cluster = Cluster::of(&[HostSize { vcpus: 100, memory_mib: 100_000, disk_gib: 100 }; 3]);
    only(&mut cluster, &[("Ram", 1000), ("Cpu", 1000)]);
    let policy = Policy::of(&cluster.state.scheduler);
    let mut counts = [0; 3];
    for _ in 0..60 {
        let vm = cluster.vm(Size { vcpus: 1, memory_mib: 16, disk_gib: 0 });
        // A fresh batch each time: nothing but the VM's id tells the hosts apart.
        let chosen = Batch::new(&cluster.state, &policy).place(cluster.record(vm)).expect("it fits");
        counts[chosen.node.0 as usize - 1] += 1;
    }
    assert!(counts.iter().all(|count| *count >= 8), "{counts:?}");
}

#[test]
fn without_hosts_there_is_no_choice_and_no_panic() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let vm = cluster.vm(SMALL_VM);
    cluster.set_up(1, false);
    let policy = Policy::default();
    assert_eq!(Batch::new(&cluster.state, &policy).place(cluster.record(vm)), None);
    let mut empty = cluster.state.clone();
    empty.nodes = Default::default();
    assert_eq!(Batch::new(&empty, &policy).place(&empty.vms[&vm]), None);
}

/// What is only preferred outweighs small differences of load, by the policy as it is: a host with almost as much free
/// weighs almost the same. Nova's soft affinity on equal hosts keeps a group together; Kubernetes' `PreferNoSchedule`
/// node is the last to be used. (While VMs are being built, `IoOps` weighs as much, as in Nova.)
#[test]
fn preferences_tell_between_hosts_that_are_almost_equal() {
    let place = |cluster: &mut Cluster, scheduling: &Scheduling| {
        let vm = cluster.vm_like(scheduling.clone());
        let image = cluster.record(vm).spec.image;
        cluster.state.images.get_mut(&image).expect("it exists").holders = (1..=3).map(NodeId).collect();
        let node = cluster.placed_on(vm).expect("it fits");
        cluster.run(vm);
        node
    };
    for (policy, nodes) in [(GroupPolicy::SoftAffinity, 1), (GroupPolicy::SoftAntiAffinity, 3)] {
        let mut cluster = Cluster::of(&[MEDIUM; 3]);
        let group = Some(cluster.group(1, policy, None));
        let member = Scheduling { group, ..Scheduling::default() };
        let on: BTreeSet<u64> = (0..3).map(|_| place(&mut cluster, &member)).collect();
        assert_eq!(on.len(), nodes, "{policy:?}: {on:?}");
    }
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    cluster.update(1, |update| {
        let slow = Taint { key: "slow".into(), value: String::new(), effect: Effect::PreferNoSchedule };
        update.taints = Some([slow].into());
    });
    let on: Vec<u64> = (0..6).map(|_| place(&mut cluster, &Scheduling::default())).collect();
    assert!(!on.contains(&1), "{on:?}");
}
