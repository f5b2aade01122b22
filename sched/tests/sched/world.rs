//! Random clusters from a seed, with everything in them that decisions look at: zones, aggregates, labels, taints,
//! traits, capabilities, overrides, dedicated CPUs, PCI devices, groups, policies, hosts kept for VMs that have long
//! waited, VMs that were evicted, VMs in every state. The seed is what a failing test prints.

use std::collections::BTreeSet;

use holm_model::cluster_policy::FAILOVER_NODES_MIN;
use holm_model::command::{CreateVm, CreateVms, DeleteVm, ReleaseCause, SetQuota};
use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::parts::{Offer, PCPU, PciDevice};
use holm_model::policy::{FILTERS, WEIGHERS};
use holm_model::resources::InventoryOverride;
use holm_model::scheduling::{Effect, Operator, Requirement, Scheduling, Taint, Toleration};
use holm_model::vm::{Availability, DiskLoss, OnNoHost};
use holm_model::{Command, GroupId, ImageId, Inventory, NodeId, Reply, ResourceClass, Timestamp, VmId};
use holm_sched::controllers::Placement;
use holm_sched::{Controller, Facts};
use uuid::Uuid;

use crate::cluster::{Cluster, HostSize};

/// SplitMix64.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    /// True once in `n`.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize].clone()
    }
}

/// A cluster with a queue.
pub fn world(seed: u64) -> Cluster {
    let mut dice = Dice(seed);
    let of = |vcpus, memory_mib, disk_gib| HostSize { vcpus, memory_mib, disk_gib };
    // Few sizes, so that hosts are often equal and every claim turns the choice.
    let sizes =
        [of(8, 9000, 40), of(8, 9000, 40), of(8, 9000, 40), of(16, 9000, 20), of(3, 4000, 10), of(0, 0, 0)];
    // Every third one is crowded.
    let crowded = dice.once_in(3);
    let more_hosts = dice.roll(if crowded { 4 } else { 8 });
    let hosts: Vec<HostSize> = (0..=more_hosts).map(|_| dice.pick(&sizes)).collect();
    let mut cluster = Cluster::of(&hosts);
    (1..=hosts.len() as u64).for_each(|n| furnish(&mut cluster, &mut dice, n));
    aggregates(&mut cluster, &mut dice, hosts.len() as u64);
    for n in 1..=3 {
        let policies = [GroupPolicy::Affinity, GroupPolicy::AntiAffinity, GroupPolicy::AntiAffinity];
        let soft = [GroupPolicy::SoftAffinity, GroupPolicy::SoftAntiAffinity];
        let policy = if dice.once_in(3) { dice.pick(&soft) } else { dice.pick(&policies) };
        let max = (policy == GroupPolicy::AntiAffinity && dice.once_in(2)).then_some(2);
        cluster.group(n, policy, max);
    }
    cluster.image(2, &[("hw_architecture", "x86_64"), ("os_distro", "debian")]);
    cluster.image(3, &[("os_distro", "windows")]);
    if dice.once_in(4) {
        let limit = (ResourceClass::Vcpu, Some(dice.roll(40)));
        let project = "default".to_owned();
        cluster.done(Command::SetQuota(SetQuota { project, limits: [limit].into() }));
    }
    policy(&mut cluster, &mut dice, crowded);
    let early = dice.roll(20) + if crowded { 15 } else { 0 };
    (0..early).for_each(|_| wish(&mut cluster, &mut dice));
    settle(&mut cluster, &mut dice, crowded);
    let late = dice.roll(20);
    (0..late).for_each(|_| wish(&mut cluster, &mut dice));
    if seed.is_multiple_of(3) {
        let mut dice = Dice(seed.wrapping_mul(31));
        (0..=dice.roll(2)).for_each(|_| wish_for_batch(&mut cluster, &mut dice));
    }
    cluster
}

/// Asks for several VMs at once, all or none.
fn wish_for_batch(cluster: &mut Cluster, dice: &mut Dice) {
    let size = Size { vcpus: 1 + dice.roll(3) as u32, memory_mib: 500, disk_gib: dice.roll(3) };
    let specs: [&[(&str, &str)]; 3] =
        [&[], &[("hw:cpu_policy", "dedicated")], &[("resources:CUSTOM_GPU", "1")]];
    let flavor = cluster.flavor_with(size, dice.pick(&specs));
    let hosts = cluster.state.nodes.len() as u64;
    // Each asks for the same.
    let like = dice.roll(1 << 30);
    let items = (0..2 + dice.roll(5))
        .map(|_| cluster.request(flavor, |vm| steer(vm, &mut Dice(like), &[], hosts)))
        .collect();
    cluster.apply(Command::CreateVms(CreateVms { items, atomic: true }));
}

/// Nodes that a leader of this world might not have heard.
pub fn unheard(seed: u64) -> BTreeSet<NodeId> {
    let mut dice = Dice(!seed);
    (1..=9).filter(|_| dice.once_in(8)).map(NodeId).collect()
}

fn furnish(cluster: &mut Cluster, dice: &mut Dice, n: u64) {
    let (disk, rack) = (dice.pick(&["ssd", "hdd"]), dice.roll(4));
    let effect = dice.pick(&[Effect::NoSchedule, Effect::PreferNoSchedule]);
    let (tainted, ratio, gpus) = (dice.once_in(4), dice.pick(&[500, 1000, 2000]), dice.roll(3));
    cluster.update(n, |node| {
        node.labels.insert("disk".into(), Some(disk.into()));
        node.labels.insert("rack".into(), (rack > 0).then(|| rack.to_string()));
        if tainted {
            let taint = Taint { key: "gpu".into(), value: "yes".into(), effect };
            node.taints = Some(BTreeSet::from([taint]));
        }
        node.traits = (rack == 2).then(|| BTreeSet::from(["CUSTOM_FAST".into()]));
        let over =
            InventoryOverride { allocation_ratio_thousandths: Some(ratio), ..InventoryOverride::default() };
        node.inventory.insert(ResourceClass::Vcpu, Some(over));
        if dice.once_in(8) {
            let steps = InventoryOverride { step_size: Some(500), ..InventoryOverride::default() };
            node.inventory.insert(ResourceClass::MemoryMb, Some(steps));
        }
        if gpus > 0 {
            let total = InventoryOverride { total: Some(gpus), ..InventoryOverride::default() };
            node.inventory.insert(ResourceClass::Custom("CUSTOM_GPU".into()), Some(total));
        }
    });
    let offer = offer(dice);
    let (arch, load) = (dice.pick(&["x86_64", "aarch64"]), dice.roll(3) * 500);
    let version = dice.pick(&["v53.0", "v52.1", ""]);
    cluster.report_with(n, |report| {
        report.capabilities = crate::cluster::strings(&[("arch", arch), ("cores", "8")]);
        report.load_thousandths = load;
        report.hypervisor.version = version.into();
        let dedicated = Inventory::of(offer.cpus.len() as u64);
        report.inventory.insert(ResourceClass::Custom(PCPU.into()), dedicated);
        report.offer = offer;
    });
    if dice.once_in(10) {
        cluster.set_up(n, false);
    }
    if dice.once_in(10) {
        cluster.cordon(n, "test");
    }
}

/// Up to three dedicated CPUs on each of two NUMA nodes, and up to two GPUs; nothing on every second host.
fn offer(dice: &mut Dice) -> Offer {
    if dice.once_in(2) {
        return Offer::default();
    }
    let mut offer = Offer::default();
    for numa_node in 0..2 {
        offer.cpus.extend((0..dice.roll(4) as u32).map(|cpu| (numa_node * 10 + cpu, numa_node)));
    }
    for n in 0..dice.roll(3) {
        let (alias, vendor, product) = ("gpu".into(), "10de".into(), "1eb8".into());
        let numa_node = (!dice.once_in(3)).then_some(dice.roll(2) as u32);
        offer.devices.insert(format!("0000:0{n}:00.0"), PciDevice { alias, vendor, product, numa_node });
    }
    offer
}

fn aggregates(cluster: &mut Cluster, dice: &mut Dice, hosts: u64) {
    let some = |dice: &mut Dice| (1..=hosts).filter(|_| dice.once_in(2)).collect::<Vec<u64>>();
    let bow = some(dice);
    cluster.aggregate(1, &bow, &[("availability_zone", "bow")]);
    let metadata: [&[(&str, &str)]; 9] = [
        &[("ssd", "true"), ("ram_weight_multiplier", "-2.5")],
        &[("filter_tenant_id", "default")],
        &[("filter_tenant_id", "others")],
        &[("filter_tenant_id", "others"), ("filter_tenant_id2", "default")],
        &[("max_instances_per_host", "1"), ("max_io_ops_per_host", "2")],
        &[("max_instances_per_host", "3"), ("max_io_ops_per_host", "1")],
        &[("max_instances_per_host", "10"), ("max_io_ops_per_host", "few")],
        &[("os_distro", "debian, fedora"), ("cpu_weight_multiplier", "0.5")],
        &[("load_weight_multiplier", "3"), ("ram_weight_multiplier", "much")],
    ];
    for n in 2..5 {
        let nodes = some(dice);
        cluster.aggregate_of_old(n, &nodes, dice.pick(&metadata));
    }
}

fn policy(cluster: &mut Cluster, dice: &mut Dice, crowded: bool) {
    cluster.policy(|policy| {
        for (name, on) in FILTERS {
            if !on && dice.once_in(3) {
                let at = dice.roll(policy.filters.len() as u64 + 1) as usize;
                policy.filters.insert(at, (*name).into());
            }
        }
        for (name, _) in WEIGHERS {
            if dice.once_in(2) {
                let multiplier = dice.pick(&[-1500, -1000, 0, 500, 1000, 3000]);
                policy.weighers.insert((*name).into(), multiplier);
            }
        }
        policy.preemption = crowded || dice.once_in(2);
        policy.reserve_after_s = dice.pick(&[0, 30, 30]);
        policy.max_instances_per_host = 1 + dice.roll(8) as u32;
        policy.max_io_ops_per_host = 1 + dice.roll(8) as u32;
        if dice.once_in(2) {
            policy.isolated_images = vec!["guest3".into()];
            policy.isolated_nodes = vec!["n1".into()];
            policy.restrict_isolated_hosts_to_isolated_images = dice.once_in(2);
        }
    });
}

/// Asks for one more VM, which may be refused.
pub fn wish(cluster: &mut Cluster, dice: &mut Dice) {
    wish_for(cluster, dice, |_| {});
}

fn wish_for(cluster: &mut Cluster, dice: &mut Dice, change: impl FnOnce(&mut CreateVm)) {
    let big = dice.roll(2);
    let size = Size {
        vcpus: 1 + dice.roll(3) as u32,
        memory_mib: dice.pick(&[500, 500, 502]) + big * 1000,
        disk_gib: big * 5,
    };
    let specs: [&[(&str, &str)]; 14] = [
        &[],
        &[],
        &[],
        &[],
        &[("capabilities:arch", "<or> x86_64 <or> riscv64")],
        &[("trait:CUSTOM_FAST", "required")],
        // Nobody reports the second: without a scope it means something else.
        &[("cores", ">= 4"), ("capabilities:num_instances", "<= 1"), ("ssd", "true")],
        &[("resources:CUSTOM_GPU", "1"), ("capabilities:cores", ">= 4")],
        &[("aggregate_instance_extra_specs:ssd", "true"), ("trait:CUSTOM_FAST", "forbidden")],
        &[],
        &[("hw:cpu_policy", "dedicated")],
        &[("hw:cpu_policy", "dedicated"), ("hw:numa_nodes", "1")],
        &[("pci_passthrough:alias", "gpu:1")],
        &[("hw:cpu_policy", "dedicated"), ("pci_passthrough:alias", "gpu:2")],
    ];
    let flavor = cluster.flavor_with(size, dice.pick(&specs));
    cluster.now = Timestamp(cluster.now.0 + dice.roll(2));
    let vms: Vec<VmId> = cluster.state.vms.keys().copied().collect();
    let hosts = cluster.state.nodes.len() as u64;
    let request = cluster.request(flavor, |vm| {
        steer(vm, dice, &vms, hosts);
        change(vm);
    });
    let reply = cluster.apply(Command::CreateVm(request));
    // Beside quota only a contradiction is refused: what it asks for, and its group.
    let known = ["quota", "which stays on one host", "of which a host takes one"];
    let expected = |reason: &str| known.iter().any(|words| reason.contains(words));
    assert!(!matches!(&reply, Reply::Rejected(reason) if !expected(&reason.to_string())), "{reply:?}");
}

fn steer(vm: &mut CreateVm, dice: &mut Dice, vms: &[VmId], hosts: u64) {
    vm.image = ImageId(Uuid::from_u128(dice.pick(&[1, 1, 2, 3])));
    vm.node = dice.once_in(20).then(|| NodeId(1 + dice.roll(hosts)));
    if hosts >= FAILOVER_NODES_MIN as u64 && vm.node.is_none() && dice.once_in(4) {
        vm.availability = Availability::Failover;
        vm.policies.disk_loss = DiskLoss::Recreate;
    }
    vm.on_no_host = if dice.once_in(5) { OnNoHost::Fail } else { OnNoHost::Queue };
    let scheduling = &mut vm.scheduling;
    scheduling.availability_zone = dice.once_in(6).then(|| dice.pick(&["bow", "default"]).to_owned());
    scheduling.group = dice.once_in(3).then(|| GroupId(Uuid::from_u128(1 + u128::from(dice.roll(3)))));
    scheduling.priority = dice.pick(&[0, 0, 0, -1, 5]);
    scheduling.preemptible = dice.once_in(2);
    scheduling.near = dice.once_in(10).then(|| dice.pick(&["127.0.0.0/8", "10.0.0.0/8"]).to_owned());
    if dice.once_in(6) {
        let label = |key: &str, operator, values: &[&str]| Requirement {
            key: key.into(),
            operator,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        scheduling.node_selector = vec![dice.pick(&[
            label("disk", Operator::In, &["ssd"]),
            label("disk", Operator::NotIn, &["hdd"]),
            label("rack", Operator::Gt, &["1"]),
            label("rack", Operator::DoesNotExist, &[]),
        ])];
    }
    if dice.once_in(3) {
        scheduling.tolerations = vec![Toleration { key: Some("gpu".into()), value: None, effect: None }];
    }
    if !vms.is_empty() && dice.once_in(8) {
        scheduling.same_host = BTreeSet::from([dice.pick(vms)]);
    } else if !vms.is_empty() && dice.once_in(6) {
        scheduling.different_host = BTreeSet::from([dice.pick(vms), dice.pick(vms)]);
    }
}

/// Places what waits; then some VMs run, some fail to build, some are deleted. Those that still wait have done so for
/// long when the next decisions keep hosts for them and evict others.
fn settle(cluster: &mut Cluster, dice: &mut Dice, crowded: bool) {
    decide(cluster);
    come_and_go(cluster, dice);
    if crowded {
        // These come to hosts that are full, go before others, and ask for nothing but room.
        let urgent = |vm: &mut CreateVm| {
            vm.image = ImageId(Uuid::from_u128(1));
            vm.scheduling = Scheduling { priority: 7, ..Scheduling::default() };
        };
        (0..dice.roll(8)).for_each(|_| wish_for(cluster, dice, urgent));
        decide(cluster);
    }
    cluster.now = Timestamp(cluster.now.0 + 40_000);
    for _ in 0..2 {
        decide(cluster);
        let leaving = cluster.state.vms.values().filter(|vm| vm.recovery.vacate.is_some() && dice.once_in(2));
        let gone: Vec<VmId> = leaving.map(|vm| vm.id).collect();
        gone.into_iter().for_each(|vm| cluster.release(vm, ReleaseCause::Vacated));
    }
}

fn decide(cluster: &mut Cluster) {
    let facts = Facts { now: cluster.now, ..Facts::default() };
    let commands = Placement.decide(&cluster.state, &facts);
    cluster.carry_out(commands);
}

fn come_and_go(cluster: &mut Cluster, dice: &mut Dice) {
    let placed: Vec<VmId> =
        cluster.state.vms.values().filter(|vm| vm.claim.is_some()).map(|vm| vm.id).collect();
    for vm in placed {
        match dice.roll(8) {
            0 => cluster.fail_build(vm, "no luck"),
            1 => {
                cluster.done(Command::DeleteVm(DeleteVm { vm, expected: None }));
            }
            2..=4 => cluster.run(vm),
            _ => {}
        }
    }
}
