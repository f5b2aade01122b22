//! Dedicated CPUs and PCI devices: who gets which, and that nobody gets what another holds.

use std::collections::{BTreeMap, BTreeSet};

use holm_model::command::{CreateFlavor, SetQuota, UpdateNode};
use holm_model::flavor::Size;
use holm_model::parts::{PCPU, Parts, PciDevice};
use holm_model::resources::InventoryOverride;
use holm_model::vm::OnNoHost;
use holm_model::{Command, FlavorId, Inventory, NodeId, Reason, Reply, ResourceClass, VmId, invariant};
use holm_sched::{Batch, Policy, explain};
use uuid::Uuid;

use crate::cluster::{Cluster, MEDIUM, strings};
use crate::world::Dice;

const PINNED: &str = "hw:cpu_policy";
const ALIAS: &str = "pci_passthrough:alias";

fn device(alias: &str, numa_node: u32) -> PciDevice {
    PciDevice {
        alias: alias.into(),
        vendor: "10de".into(),
        product: "1eb8".into(),
        numa_node: Some(numa_node),
    }
}

/// The node offers these CPUs, by NUMA node, and these devices.
fn offer(cluster: &mut Cluster, n: u64, cpus: &[(u32, u32)], devices: &[(&str, PciDevice)]) {
    cluster.report_with(n, |report| {
        report.inventory.insert(ResourceClass::Custom(PCPU.into()), Inventory::of(cpus.len() as u64));
        report.offer.cpus = cpus.iter().copied().collect();
        report.offer.devices =
            devices.iter().map(|(address, device)| ((*address).to_owned(), device.clone())).collect();
    });
}

fn vm(cluster: &mut Cluster, vcpus: u32, extra_specs: &[(&str, &str)]) -> VmId {
    let flavor = cluster.flavor_with(Size { vcpus, memory_mib: 512, disk_gib: 1 }, extra_specs);
    cluster.create_of(flavor, |vm| vm.on_no_host = OnNoHost::Queue)
}

fn held(cluster: &Cluster, vm: VmId) -> Option<Parts> {
    cluster.record(vm).claim.as_ref().map(|claim| claim.parts.clone())
}

fn cpus(cluster: &mut Cluster, vcpus: u32, extra_specs: &[(&str, &str)]) -> Option<Vec<u32>> {
    let vm = vm(cluster, vcpus, extra_specs);
    cluster.placed_on(vm);
    held(cluster, vm).map(|parts| parts.cpus)
}

fn refusal(cluster: &Cluster, vm: VmId) -> String {
    let explanation = explain(&cluster.state, &Policy::of(&cluster.state.scheduler), cluster.record(vm));
    match &explanation.hosts[0].verdict {
        holm_sched::explain::Verdict::Refused { by, message, .. } => format!("{by}: {message}"),
        other => panic!("{other:?}"),
    }
}

/// <https://docs.openstack.org/nova/latest/admin/cpu-topologies.html>: with `hw:cpu_policy=dedicated` every vCPU gets
/// a host CPU of the dedicated set (class PCPU) for itself; a guest with pinned CPUs has one NUMA node unless it asks
/// otherwise. `shared` VMs float over the rest (VCPU).
#[test]
fn dedicated_cpus_are_of_one_numa_node_where_they_fit_one() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    offer(&mut cluster, 1, &[(4, 0), (5, 0), (6, 0), (12, 1), (13, 1)], &[]);
    let dedicated = [(PINNED, "dedicated")];
    // Two fit both nodes; node 1 is then full.
    assert_eq!(cpus(&mut cluster, 2, &dedicated), Some(vec![12, 13]));
    assert_eq!(cpus(&mut cluster, 2, &dedicated), Some(vec![4, 5]));
    // A shared VM takes none of them.
    assert_eq!(cpus(&mut cluster, 8, &[(PINNED, "shared")]), Some(vec![]));
    let claim = &cluster.state.nodes[&NodeId(1)].allocated;
    assert_eq!(claim.get(&ResourceClass::Custom(PCPU.into())), 4);
    assert_eq!(claim.get(&ResourceClass::Vcpu), 8);
    // One is left.
    let late = vm(&mut cluster, 2, &dedicated);
    assert_eq!(cluster.placed_on(late), None);
    assert_eq!(refusal(&cluster, late), "Capacity: PCPU: 2 wanted, 1 free of 5");
    assert_eq!(cpus(&mut cluster, 1, &dedicated), Some(vec![6]));
}

#[test]
fn an_operator_keeps_dedicated_cpus_back_and_overcommits_none() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    offer(&mut cluster, 1, &[(4, 0), (5, 0), (6, 0)], &[]);
    let over = |over: InventoryOverride| BTreeMap::from([(ResourceClass::Custom(PCPU.into()), Some(over))]);
    let reserved = InventoryOverride { reserved: Some(2), ..InventoryOverride::default() };
    cluster.update(1, |node| node.inventory = over(reserved));
    let two = vm(&mut cluster, 2, &[(PINNED, "dedicated")]);
    assert_eq!(cluster.placed_on(two), None);
    assert_eq!(refusal(&cluster, two), "Capacity: PCPU: 2 wanted, 1 free of 1");
    let all = InventoryOverride { reserved: Some(0), ..InventoryOverride::default() };
    cluster.update(1, |node| node.inventory = over(all));
    assert_eq!(cluster.placed_on(two), Some(1));
    let four = vm(&mut cluster, 4, &[(PINNED, "dedicated")]);
    assert_eq!(cluster.placed_on(four), None);
    let few = "Capacity: PCPU: 4 wanted, 1 free of 3";
    assert_eq!(refusal(&cluster, four), few);

    let twice =
        InventoryOverride { allocation_ratio_thousandths: Some(2000), ..InventoryOverride::default() };
    let update = UpdateNode {
        node: NodeId(1),
        labels: BTreeMap::new(),
        taints: None,
        traits: None,
        inventory: over(twice),
        expected: None,
    };
    let refused = "PCPU: allocation_ratio must be 1: a dedicated CPU is one VM's";
    assert_eq!(
        refused_field(&mut cluster, Command::UpdateNode(update)),
        ("inventory".into(), refused.into())
    );
    let limits = BTreeMap::from([(ResourceClass::Custom(PCPU.into()), Some(4))]);
    let quota = Command::SetQuota(SetQuota { project: "default".into(), limits });
    let refused = "PCPU: a flavor asks for dedicated CPUs with `hw:cpu_policy=dedicated`, and quotas count them as \
                   VCPU, like all vCPUs";
    assert_eq!(refused_field(&mut cluster, quota), ("limits".into(), refused.into()));
}

#[test]
fn as_many_fit_as_there_are_parts_units_and_places_for() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let devices = [("0000:01:00.0", device("gpu", 0)), ("0000:02:00.0", device("gpu", 0))];
    offer(&mut cluster, 1, &[(4, 0), (5, 0), (6, 0)], &devices);
    let how_many = |cluster: &Cluster, vm: VmId, most: usize| {
        let policy = Policy::of(&cluster.state.scheduler);
        let mut batch = Batch::new(&cluster.state, &policy);
        [1, 2].map(|node| batch.fill(cluster.record(vm), NodeId(node), most))
    };
    let gpu = vm(&mut cluster, 1, &[(ALIAS, "gpu:1")]);
    assert_eq!(how_many(&cluster, gpu, 1_000), [2, 0]);
    let pinned = vm(&mut cluster, 2, &[(PINNED, "dedicated")]);
    assert_eq!(how_many(&cluster, pinned, 1_000), [1, 0]);
    let plain = vm(&mut cluster, 1, &[]);
    let by_capacity = how_many(&cluster, plain, 1_000);
    assert!(by_capacity.iter().all(|count| *count > 3), "{by_capacity:?}");
    assert_eq!(how_many(&cluster, plain, 2), [2, 2]);
    cluster.policy(|policy| {
        policy.filters.push("NumInstances".to_owned());
        policy.max_instances_per_host = 3;
    });
    assert_eq!(how_many(&cluster, plain, 1_000), [3, 3]);
}

fn refused_field(cluster: &mut Cluster, command: Command) -> (String, String) {
    match cluster.apply(command) {
        Reply::Rejected(Reason::Invalid { field, message }) => (field, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_fits_no_single_numa_node_spans_several_unless_one_is_asked_for() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    offer(&mut cluster, 1, &[(0, 0), (1, 0), (2, 0), (8, 1), (9, 1)], &[]);
    let strict = vm(&mut cluster, 4, &[(PINNED, "dedicated"), ("hw:numa_nodes", "1")]);
    assert_eq!(cluster.placed_on(strict), None);
    let words = "DedicatedCpu: dedicated CPUs of one NUMA node: 4 wanted, 3 free at most";
    assert_eq!(refusal(&cluster, strict), words);
    assert_eq!(cpus(&mut cluster, 4, &[(PINNED, "dedicated")]), Some(vec![0, 1, 2, 8]));
}

/// <https://docs.openstack.org/nova/latest/admin/pci-passthrough.html>: `pci_passthrough:alias=a1:2` asks for two
/// devices of the alias `a1`; several aliases are separated by commas.
#[test]
fn devices_are_given_by_alias_near_the_cpus_first() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let devices = [
        ("0000:01:00.0", device("gpu", 0)),
        ("0000:81:00.0", device("gpu", 1)),
        ("0000:82:00.0", device("nic", 1)),
    ];
    offer(&mut cluster, 1, &[(0, 0), (8, 1), (9, 1)], &devices);
    let near = vm(&mut cluster, 2, &[(PINNED, "dedicated"), (ALIAS, "gpu:1,nic:1")]);
    assert_eq!(cluster.placed_on(near), Some(1));
    let parts = held(&cluster, near).expect("it is placed");
    assert_eq!(parts.cpus, [8, 9]);
    assert_eq!(parts.devices, BTreeSet::from(["0000:81:00.0".to_owned(), "0000:82:00.0".to_owned()]));
    let two = vm(&mut cluster, 1, &[(ALIAS, "gpu:2")]);
    assert_eq!(cluster.placed_on(two), None);
    assert_eq!(refusal(&cluster, two), "PciDevices: PCI devices `gpu`: 2 wanted, 1 free of 2");
    let none = vm(&mut cluster, 1, &[(ALIAS, "fpga")]);
    assert_eq!(cluster.placed_on(none), None);
    assert_eq!(refusal(&cluster, none), "PciDevices: PCI devices `fpga`: 1 wanted, 0 free of 0");
    // What is given back is given again.
    cluster.delete(near);
    assert_eq!(cluster.placed_on(two), Some(1));
}

/// Apply refuses such a flavor; a VM that was made from one before is refused in the same words.
#[test]
fn extra_specs_that_cannot_be_read_make_no_flavor_and_refuse_every_host() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    for (key, value, words) in [
        (PINNED, "pinned", "`hw:cpu_policy`: `pinned` is neither `dedicated` nor `shared`"),
        ("hw:numa_nodes", "2", "`hw:numa_nodes`: `2` is not supported, only 1"),
        (ALIAS, "gpu:x", "`pci_passthrough:alias`: `gpu:x` is not NAME:COUNT, such as `gpu:1`"),
        (ALIAS, "gpu:0", "`pci_passthrough:alias`: `gpu:0` is not NAME:COUNT, such as `gpu:1`"),
        (ALIAS, "gpu:1,", "`pci_passthrough:alias`: `` is not NAME:COUNT, such as `gpu:1`"),
        (ALIAS, "gpu:-1", "`pci_passthrough:alias`: `gpu:-1` is not NAME:COUNT, such as `gpu:1`"),
        (ALIAS, "gpu:4294967295,gpu:1", "`pci_passthrough:alias`: more than 4294967295 of `gpu` are wanted"),
    ] {
        assert_eq!(no_flavor(&mut cluster, &[(key, value)]), format!("extra_specs: {words}"));
        let vm = vm(&mut cluster, 1, &[]);
        let record = cluster.state.vms.get_mut(&vm).expect("it exists");
        record.spec.extra_specs = strings(&[(key, value)]);
        assert_eq!(cluster.placed_on(vm), None);
        assert_eq!(refusal(&cluster, vm), format!("DedicatedCpu: {words}"));
    }
}

/// Why there can be no flavor of these.
fn no_flavor(cluster: &mut Cluster, extra_specs: &[(&str, &str)]) -> String {
    let size = Size { vcpus: 2, memory_mib: 512, disk_gib: 1 };
    let flavor = CreateFlavor {
        id: FlavorId(Uuid::from_u128(1_000_000)),
        name: "wrong".into(),
        size,
        extra_specs: strings(extra_specs),
    };
    match cluster.apply(Command::CreateFlavor(flavor)) {
        Reply::Rejected(reason) => reason.to_string(),
        other => panic!("{extra_specs:?} gave {other:?}"),
    }
}

/// <https://docs.openstack.org/nova/latest/configuration/extra-specs.html>: `hw:numa_nodes` shapes shared CPUs too
/// there; here it would do nothing for them. Placement's granular request groups, on the same page, are not supported.
#[test]
fn a_flavor_asks_for_nothing_that_would_be_ignored() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let groups = "request groups are not supported; `resources:CLASS=N` and `trait:NAME=required` are";
    let shared = "`hw:numa_nodes`: does nothing for shared CPUs, which run on every NUMA node; \
                  add `hw:cpu_policy=dedicated`, or leave it out";
    let cases = [
        (&[("hw:numa_nodes", "1")][..], shared.to_owned()),
        (&[("hw:numa_nodes", "1"), (PINNED, "shared")], shared.to_owned()),
        (&[("resources1:CUSTOM_GPU", "1")], format!("resources1:CUSTOM_GPU=1: {groups}")),
        (&[("resources_GPU:CUSTOM_GPU", "1")], format!("resources_GPU:CUSTOM_GPU=1: {groups}")),
        (&[("trait1:CUSTOM_FAST", "required")], format!("trait1:CUSTOM_FAST=required: {groups}")),
        (&[("group_policy", "isolate")], format!("group_policy=isolate: {groups}")),
        (
            &[("trait:CUSTOM_FAST", "maybe")],
            "trait:CUSTOM_FAST=maybe: must be `required` or `forbidden`".into(),
        ),
    ];
    for (extra_specs, words) in cases {
        assert_eq!(no_flavor(&mut cluster, extra_specs), format!("extra_specs: {words}"));
    }
    assert_eq!(cluster.state.flavors.len(), 0, "nothing was created");
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html>, PCIWeigher: given hosts with one, with many and with
/// no PCI devices, who asks for one gets the first, who asks for several the second, who asks for none the last.
#[test]
fn devices_are_kept_for_those_who_ask() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    offer(&mut cluster, 1, &[], &[("0000:01:00.0", device("gpu", 0))]);
    let many: Vec<(String, PciDevice)> =
        (0..4).map(|n| (format!("0000:0{n}:00.0"), device("gpu", 0))).collect();
    let many: Vec<(&str, PciDevice)> = many.iter().map(|(a, d)| (a.as_str(), d.clone())).collect();
    offer(&mut cluster, 2, &[], &many);
    cluster.policy(|policy| policy.weighers = BTreeMap::from([("Pci".into(), 1000), ("Health".into(), 0)]));
    for (asked, node) in
        [(vec![(ALIAS, "gpu:2")], 2), (vec![(ALIAS, "gpu:1")], 1), (vec![], 1), (vec![(ALIAS, "gpu")], 2)]
    {
        let before = cluster.clone();
        let vm = vm(&mut cluster, 1, &asked);
        let placed = cluster.placed_on(vm);
        if asked.is_empty() {
            // Since the device of n1 was given away, n1 and n3 have none.
            assert!(matches!(placed, Some(1 | 3)), "{placed:?}");
            cluster = before;
        } else {
            assert_eq!(placed, Some(node), "{asked:?}");
        }
    }
}

/// For random offers and demands: apply accepts every decision, and no part is ever held twice.
#[test]
fn no_part_is_held_twice_whatever_comes_and_goes() {
    let mut pinned = 0;
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let mut cluster = Cluster::of(&[MEDIUM; 3]);
        for node in 1..=3 {
            let cpus: Vec<(u32, u32)> = (0..dice.roll(9) as u32).map(|cpu| (cpu, cpu / 4)).collect();
            let addresses: Vec<String> = (0..dice.roll(4)).map(|n| format!("0000:0{n}:00.0")).collect();
            let devices: Vec<_> = addresses
                .iter()
                .map(|address| (address.as_str(), device("gpu", dice.roll(2) as u32)))
                .collect();
            offer(&mut cluster, node, &cpus, &devices);
        }
        let mut alive = Vec::new();
        for _ in 0..30 {
            let mut asked = Vec::new();
            if dice.once_in(2) {
                asked.push((PINNED, "dedicated"));
            }
            if dice.once_in(3) {
                asked.push((ALIAS, dice.pick(&["gpu:1", "gpu:2"])));
            }
            let vcpus = 1 + dice.roll(4) as u32;
            alive.push(vm(&mut cluster, vcpus, &asked));
            if dice.once_in(3) {
                // Panics when apply refuses any of it.
                cluster.placed_on(alive[0]);
            }
            if dice.once_in(4) {
                let gone = alive.swap_remove(dice.roll(alive.len() as u64) as usize);
                cluster.delete(gone);
            }
            invariant::check(&cluster.state).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        }
        pinned +=
            alive.iter().filter(|vm| held(&cluster, **vm).is_some_and(|parts| !parts.is_empty())).count();
    }
    assert!(pinned > 100, "only {pinned} VMs hold parts");
}
