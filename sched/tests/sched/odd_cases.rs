//! The cases that a formula is easily wrong in, for every weigher and for capacity: no candidates, equal weights,
//! negative multipliers, nothing in the inventory, more reserved than there is, a ratio below 1.

use std::collections::BTreeSet;

use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::node::Condition;
use holm_model::parts::{CPU_POLICY, PCPU, PciDevice};
use holm_model::policy::WEIGHERS;
use holm_model::resources::InventoryOverride;
use holm_model::scheduling::{Effect, Scheduling, Taint};
use holm_model::vm::Vm;
use holm_model::{Inventory, NodeId, ResourceClass, Timestamp, VmId};
use holm_sched::{Batch, Policy, explain};

use crate::cluster::{Cluster, HostSize, MEDIUM, SMALL_VM};
use crate::filters::verdicts;
use crate::weighers::{only, raw};

/// Scores by node.
fn scores(cluster: &Cluster, vm: VmId) -> Vec<(u64, i64)> {
    let policy = Policy::of(&cluster.state.scheduler);
    let chosen = Batch::new(&cluster.state, &policy).place(cluster.record(vm)).expect("it fits");
    let mut scores: Vec<_> = chosen.scores.iter().map(|s| (s.node.0, s.score_millionths)).collect();
    scores.sort_unstable();
    scores
}

/// Four hosts that differ in all that weighers look at, and a VM in a group of each soft policy.
fn varied() -> (Cluster, [VmId; 2]) {
    let host = |n: u64| HostSize { vcpus: 8 * n, memory_mib: 8192 * n, disk_gib: 100 * n };
    let mut cluster = Cluster::of(&[host(1), host(2), host(3), host(4)]);
    for (n, version) in [(1, "v53.0"), (2, "v52.0"), (3, ""), (4, "v51.0")] {
        cluster.report_with(n, |report| {
            report.load_thousandths = n * 300;
            report.hypervisor.version = version.into();
            if n == 3 {
                let condition = Condition { since: Timestamp(1), message: "little is left".into() };
                report.conditions.insert("DiskLow".into(), condition);
            }
            for device in 0..n - 1 {
                let (alias, vendor, product) = ("gpu".into(), "10de".into(), "1eb8".into());
                let gpu = PciDevice { alias, vendor, product, numa_node: None };
                report.offer.devices.insert(format!("0000:0{device}:00.0"), gpu);
            }
        });
    }
    let (key, value, effect) = ("old".into(), String::new(), Effect::PreferNoSchedule);
    cluster.update(2, |node| node.taints = Some(BTreeSet::from([Taint { key, value, effect }])));
    let soft = [GroupPolicy::SoftAffinity, GroupPolicy::SoftAntiAffinity];
    let asking = [1, 2].map(|n| {
        let group = cluster.group(n, soft[n as usize - 1], None);
        let scheduling = || Scheduling { group: Some(group), ..Scheduling::default() };
        let member =
            cluster.create(SMALL_VM, |vm| (vm.node, vm.scheduling) = (Some(NodeId(4)), scheduling()));
        assert_eq!(cluster.placed_on(member), Some(4));
        scheduling()
    });
    let failing = cluster.vm_with(SMALL_VM, Some(2), Default::default());
    assert_eq!(cluster.placed_on(failing), Some(2));
    cluster.fail_build(failing, "no luck");
    let asking = asking.map(|scheduling| cluster.vm_like(scheduling));
    (cluster, asking)
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#ramweigher> and the others there: a negative multiplier
/// turns a weigher round. Weights lie between 0 and 1 before they are multiplied (`normalize` in Nova's `weights.py`).
#[test]
fn every_weigher_tells_hosts_apart_within_its_multiplier_and_turns_with_its_sign() {
    let (mut cluster, [with, apart]) = varied();
    for (name, _) in WEIGHERS {
        let vm = if *name == "SoftAntiAffinity" { apart } else { with };
        let mut of = |multiplier| {
            only(&mut cluster, &[("Health", 0), ("Pci", 0)]);
            cluster.policy(|policy| _ = policy.weighers.insert((*name).into(), multiplier));
            scores(&cluster, vm)
        };
        let (liked, disliked, off) = (of(1000), of(-1000), of(0));
        assert!(off.iter().all(|(_, score)| *score == 0), "{name} is off: {off:?}");
        let turned: Vec<_> = liked.iter().map(|(node, score)| (*node, -score)).collect();
        assert_eq!(disliked, turned, "{name}");
        let least = liked.iter().map(|(_, score)| *score).min().expect("four hosts");
        let most = liked.iter().map(|(_, score)| *score).max().expect("four hosts");
        if FROM_ZERO.contains(name) {
            assert!(least < most && least.min(0) >= -1_000_000, "{name}: {liked:?}");
            assert_eq!(
                most.max(-least),
                1_000_000,
                "{name}: the greatest is 1 times the multiplier: {liked:?}"
            );
        } else {
            assert_eq!(most - least, 1_000_000, "{name}: from 0 to 1 times the multiplier: {liked:?}");
        }
    }
}

/// Weighers that take 0 for the least host: `minval = 0` of Nova's, and `DefaultNormalizeScore` in Kubernetes.
const FROM_ZERO: &[&str] = &["Ram", "Cpu", "Disk", "IoOps", "Load", "PreferNoSchedule"];

/// `normalize` in Nova's `weights.py`: where all weigh the same, all weigh 0, or 1 where 0 is the least (`minval`) and
/// they have some.
#[test]
fn every_weigher_gives_equal_hosts_the_same() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    let vm = cluster.vm(SMALL_VM);
    let everywhere = (1..=3).map(NodeId).collect();
    let image = cluster.record(vm).spec.image;
    cluster.state.images.get_mut(&image).expect("it exists").holders = everywhere;
    for multiplier in [-1000, 1000, 1_000_000_000] {
        cluster.policy(|policy| {
            policy.weighers = WEIGHERS.iter().map(|(name, _)| ((*name).into(), multiplier)).collect();
        });
        // Of RAM, CPU and disk.
        let each = 3 * 1_000 * multiplier;
        assert_eq!(scores(&cluster, vm), [(1, each), (2, each), (3, each)]);
    }
}

#[test]
fn every_weigher_does_without_candidates() {
    let (mut cluster, [vm, _]) = varied();
    (1..=4).for_each(|node| cluster.set_up(node, false));
    for (name, _) in WEIGHERS {
        only(&mut cluster, &[(name, -1000)]);
        let policy = Policy::of(&cluster.state.scheduler);
        assert_eq!(Batch::new(&cluster.state, &policy).place(cluster.record(vm)), None, "{name}");
        assert_eq!(explain(&cluster.state, &policy, cluster.record(vm)).best, None, "{name}");
    }
}

/// <https://docs.openstack.org/placement/latest/user/index.html>: capacity is (total - reserved) × ratio.
#[test]
fn what_is_free_is_placements_formula_in_every_corner() {
    let cases = [
        // Total, reserved, ratio, and what is free beside one VM of 1 vCPU.
        (8, 0, 1000, 7),
        (8, 2, 1000, 5),
        (8, 0, 500, 3),
        (3, 0, 500, 0),
        (8, 0, 4000, 31),
        // Nothing, or less than nothing: more is claimed than there is.
        (0, 0, 4000, -1),
        (4, 9, 4000, -1),
        (1, 0, 500, -1),
    ];
    for (total, reserved, ratio, free) in cases {
        let mut cluster = Cluster::of(&[MEDIUM; 2]);
        let resident = cluster.vm_with(SMALL_VM, Some(1), Default::default());
        assert_eq!(cluster.placed_on(resident), Some(1));
        let over = InventoryOverride {
            total: Some(total),
            reserved: Some(reserved),
            allocation_ratio_thousandths: Some(ratio),
            ..InventoryOverride::default()
        };
        cluster.update(1, |node| _ = node.inventory.insert(ResourceClass::Vcpu, Some(over)));
        let vm = cluster.vm(SMALL_VM);
        assert_eq!(raw(&cluster, "Cpu", vm)[0], free, "({total} - {reserved}) × {ratio}‰");
        let fits = verdicts(&cluster, "Capacity", vm)[0].is_ok();
        assert_eq!(fits, free >= 1, "({total} - {reserved}) × {ratio}‰");
    }
}

/// Decisions compare a few numbers that are kept beside the record. They tell what the rule does, or leave it to the rule.
#[test]
fn numbers_kept_beside_the_record_tell_what_the_record_does() {
    let totals = [0, 1, 8, 64, (1 << 31) - 1, 1 << 31, 1 << 33, u64::MAX];
    let units = [(1, u64::MAX, 1), (1, 4, 1), (1, 64, 1), (3, 9, 1), (1, u64::MAX, 4), (1, 1 << 33, 1)];
    let classes = [
        ResourceClass::Vcpu,
        ResourceClass::MemoryMb,
        ResourceClass::DiskGb,
        ResourceClass::Custom(PCPU.into()),
    ];
    let mut cluster = Cluster::of(&[MEDIUM]);
    let dedicated = |vm: &mut Vm| _ = vm.spec.extra_specs.insert(CPU_POLICY.into(), "dedicated".into());
    let sizes = [(1, 16, 0), (2, 8, 8), (4, 64, 4), (5, 5, 5), (9, 2048, 64), (65, 1 << 33, 1 << 40)];
    let mut vms = Vec::new();
    for (vcpus, memory_mib, disk_gib) in sizes {
        let (shared, pinned) = (cluster.vm(SMALL_VM), cluster.vm(SMALL_VM));
        for vm in [shared, pinned] {
            let record = cluster.state.vms.get_mut(&vm).expect("it was created");
            record.spec.size = Size { vcpus, memory_mib, disk_gib };
        }
        dedicated(cluster.state.vms.get_mut(&pinned).expect("it was created"));
        vms.extend([shared, pinned]);
    }
    for class in &classes {
        for (total, (min_unit, max_unit, step_size)) in
            totals.into_iter().flat_map(|total| units.map(|units| (total, units)))
        {
            let mut node = cluster.state.nodes.get_mut(&NodeId(1)).expect("the only one");
            let report = node.report.as_mut().expect("it has reported");
            report.offer.cpus = (0..8).map(|cpu| (cpu, 0)).collect();
            node.recount_room();
            let ample = Inventory::of(1 << 30);
            node.inventory = classes.iter().map(|of| (of.clone(), ample.clone())).collect();
            let inventory = Inventory { min_unit, max_unit, step_size, ..Inventory::of(total) };
            node.inventory.insert(class.clone(), inventory);
            drop(node);
            // It compares both.
            vms.iter().for_each(|vm| _ = verdicts(&cluster, "Capacity", *vm));
        }
    }
}
