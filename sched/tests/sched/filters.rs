//! The filters that apply asks too, and those from Kubernetes: what each refuses and in which words.

use std::collections::BTreeSet;

use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::policy::{FILTERS, SchedulerPolicy};
use holm_model::resources::InventoryOverride;
use holm_model::scheduling::{Effect, Operator, Requirement, Scheduling, Taint, Toleration};
use holm_model::vm::OnNoHost;
use holm_model::{NodeId, ResourceClass, VmId};
use holm_sched::request::Placed;
use holm_sched::{Controller, Facts, Host, Policy, Request, filters, ignored};

use crate::cluster::{Cluster, HostSize, MEDIUM, SMALL_VM};

/// What the filter says of every host, by node.
pub fn verdicts(cluster: &Cluster, filter: &str, vm: VmId) -> Vec<Result<(), String>> {
    let filter = filters::by_name(filter, &cluster.state.scheduler).expect("it exists");
    let request = Request::new(&cluster.state, &Placed::new(), cluster.record(vm));
    let verdict = |host: &Host<'_>| {
        let verdict = filter.check(&request, host);
        assert_eq!(filter.passes(&request, host), verdict.is_ok(), "passes and check agree");
        assert!(filter.applies(&request) || verdict.is_ok(), "what does not apply refuses nothing");
        verdict
    };
    Host::all(&cluster.state).iter().map(verdict).collect()
}

/// Whether each host passes.
pub fn passes(cluster: &Cluster, filter: &str, vm: VmId) -> Vec<bool> {
    verdicts(cluster, filter, vm).iter().map(Result::is_ok).collect()
}

#[test]
fn every_filter_of_the_policy_exists_under_its_name() {
    let everything = SchedulerPolicy::default();
    for (name, _) in FILTERS {
        let filter = filters::by_name(name, &everything).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(filter.name(), *name);
    }
    assert!(filters::by_name("Luck", &everything).is_none());
}

#[test]
fn a_policy_with_a_filter_of_the_future_places_nothing_and_says_so() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.state.scheduler.filters.push("Luck".into());
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(cluster.placed_on(vm), None);
    let refusal = &cluster.record(vm).refusals[0];
    assert_eq!(refusal.message, "filter `Luck`: this version does not know it; upgrade the leader");
}

#[test]
fn filters_are_asked_in_the_order_of_the_policy() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.cordon(1, "test");
    let vm = cluster.vm(Size { vcpus: 64, memory_mib: 1024, disk_gib: 0 });
    let by = |cluster: &Cluster| {
        let policy = Policy::of(&cluster.state.scheduler);
        let request = Request::new(&cluster.state, &Placed::new(), cluster.record(vm));
        policy.check(&request, &Host::all(&cluster.state)[0]).expect_err("it is refused").0
    };
    assert_eq!(by(&cluster), "ComputeStatus");
    cluster.policy(|policy| policy.filters.reverse());
    assert_eq!(by(&cluster), "Capacity");
}

/// The reader of each is off, and no VM is told so by its absence.
#[test]
fn what_nobody_looks_at_is_said() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let zone = "bow".to_owned();
    let labels = Requirement { key: "disk".into(), operator: Operator::Exists, values: vec![] };
    let db = cluster.vm(SMALL_VM);
    let image = cluster.image(2, &[("hw_architecture", "x86_64")]);
    let debian = cluster.image(3, &[("os_distro", "debian"), ("hypervisor_type", "kvm")]);
    cluster.aggregate(1, &[1], &[("availability_zone", "bow")]);
    let asks = |scheduling| move |cluster: &mut Cluster| cluster.vm_like(scheduling);
    let flavor = |key: &'static str| move |cluster: &mut Cluster| cluster.vm_of(&[(key, "required")]);
    type Ask = Box<dyn FnOnce(&mut Cluster) -> VmId>;
    let usual = Scheduling::default;
    let cases: Vec<(&str, &str, Ask)> = vec![
        (
            "AvailabilityZone",
            "the zone `bow`",
            Box::new(asks(Scheduling { availability_zone: Some(zone), ..usual() })),
        ),
        (
            "NodeSelector",
            "labels of its node",
            Box::new(asks(Scheduling { node_selector: vec![labels], ..usual() })),
        ),
        (
            "SameHost",
            "the host of other VMs",
            Box::new(asks(Scheduling { same_host: BTreeSet::from([db]), ..usual() })),
        ),
        (
            "DifferentHost",
            "another host than other VMs",
            Box::new(asks(Scheduling { different_host: BTreeSet::from([db]), ..usual() })),
        ),
        (
            "SimpleCidrAffinity",
            "a node near `10.0.0.0/8`",
            Box::new(asks(Scheduling { near: Some("10.0.0.0/8".into()), ..usual() })),
        ),
        ("ComputeCapabilities", "`capabilities:arch`", Box::new(flavor("capabilities:arch"))),
        ("Traits", "`trait:CUSTOM_FAST`", Box::new(flavor("trait:CUSTOM_FAST"))),
        (
            "AggregateExtraSpecs",
            "`aggregate_instance_extra_specs:ssd`",
            Box::new(flavor("aggregate_instance_extra_specs:ssd")),
        ),
        // No node reports it: it can only be about aggregates. Every node has a name.
        ("AggregateExtraSpecs", "`ssd`", Box::new(flavor("ssd"))),
        ("ComputeCapabilities", "`host`", Box::new(flavor("host"))),
        (
            "AggregateImagePropertiesIsolation",
            "`hypervisor_type`, `os_distro`",
            Box::new(move |cluster| cluster.create(SMALL_VM, |vm| vm.image = debian)),
        ),
        (
            "ImageProperties",
            "`hw_architecture`",
            Box::new(move |cluster| cluster.create(SMALL_VM, |vm| vm.image = image)),
        ),
    ];
    for (filter, what, ask) in cases {
        cluster.policy(|policy| policy.filters = FILTERS.iter().map(|(name, _)| (*name).into()).collect());
        let vm = ask(&mut cluster);
        let said = |cluster: &Cluster| ignored(&cluster.state, &cluster.record(vm).spec);
        assert_eq!(said(&cluster), [""; 0], "{filter} is on");
        cluster.policy(|policy| policy.filters.retain(|on| on != filter));
        let words = format!(
            "it asks for {what}, which nobody looks at: the filter {filter} is off; \
             `holm scheduler set --enable {filter}`"
        );
        assert_eq!(said(&cluster), [words]);
        assert_eq!(ignored(&cluster.state, &cluster.record(db).spec), [""; 0], "others ask nothing");
    }
}

fn refused(message: &str) -> Result<(), String> {
    Err(message.into())
}

/// <https://docs.openstack.org/nova/latest/admin/scheduling.html#computefilter>: hosts that are operational and enabled.
#[test]
fn compute_status_wants_a_node_that_is_up_and_enabled() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    cluster.set_up(2, false);
    cluster.cordon(3, "new fan");
    let vm = cluster.vm(SMALL_VM);
    let expected = [Ok(()), refused("the node is down"), refused("the node is cordoned: new fan")];
    assert_eq!(verdicts(&cluster, "ComputeStatus", vm), expected);
}

/// The same page; one that has never reported is not operational.
#[test]
fn compute_status_refuses_a_node_that_has_never_reported() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.done(holm_model::Command::AddNode(holm_model::command::AddNode {
        name: "late".into(),
        peer_addr: "127.0.0.1:1".into(),
        api_addr: "127.0.0.1:2".into(),
    }));
    let vm = cluster.vm(SMALL_VM);
    assert_eq!(verdicts(&cluster, "ComputeStatus", vm), [Ok(()), refused("the node has not reported yet")]);
}

/// <https://docs.openstack.org/nova/latest/admin/availability-zones.html>, a host named at creation: it or none.
#[test]
fn requested_node_allows_the_named_one_only() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let anywhere = cluster.vm(SMALL_VM);
    let there = cluster.vm_with(SMALL_VM, Some(2), OnNoHost::Queue);
    assert_eq!(verdicts(&cluster, "RequestedNode", anywhere), [Ok(()), Ok(())]);
    assert_eq!(verdicts(&cluster, "RequestedNode", there), [refused("another node was asked for"), Ok(())]);
}

/// Nova's `ignore_hosts` of a request that is tried again (`conductor/manager.py`): not where it failed.
#[test]
fn excluded_keeps_a_vm_off_the_host_where_it_failed() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let vm = cluster.vm(SMALL_VM);
    let commands = holm_sched::controllers::Placement.decide(&cluster.state, &Facts::default());
    cluster.carry_out(commands);
    let failed_on = cluster.record(vm).claim.as_ref().expect("it is placed").node;
    cluster.fail_build(vm, "disk full");
    for (node, verdict) in (1..).map(NodeId).zip(verdicts(&cluster, "Excluded", vm)) {
        let expected = if node == failed_on { refused("failed to build here: disk full") } else { Ok(()) };
        assert_eq!(verdict, expected);
    }
}

/// <https://docs.openstack.org/placement/latest/user/index.html>: every class of the request must fit.
#[test]
fn capacity_counts_every_class_and_the_vmm_overhead() {
    // 1024 MiB and 16 MiB of overhead just fit into 1040.
    let host = HostSize { vcpus: 2, memory_mib: 1040, disk_gib: 10 };
    let vm = |vcpus, memory_mib, disk_gib| Size { vcpus, memory_mib, disk_gib };
    let cases = [
        (vm(2, 1024, 10), Ok(())),
        (vm(3, 1024, 10), refused("VCPU: 3 wanted, 2 free of 2")),
        (vm(2, 1026, 10), refused("MEMORY_MB: 1042 wanted, 1040 free of 1040")),
        (vm(2, 1024, 11), refused("DISK_GB: 11 wanted, 10 free of 10")),
        (vm(1, 16, 0), Ok(())),
    ];
    for (size, expected) in cases {
        let mut cluster = Cluster::of(&[host]);
        let vm = cluster.vm(size);
        assert_eq!(verdicts(&cluster, "Capacity", vm), [expected], "{size:?}");
    }
}

#[test]
fn the_policy_names_the_same_rule_as_apply_would() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    cluster.set_up(1, false);
    let huge = Size { vcpus: 64, memory_mib: 1024, disk_gib: 0 };
    let vm = cluster.vm_with(huge, Some(2), OnNoHost::Queue);
    let policy = Policy::default();
    let request = Request::new(&cluster.state, &Placed::new(), cluster.record(vm));
    for host in Host::all(&cluster.state) {
        let apply = holm_model::feasible::feasible(&cluster.state, host.node, cluster.record(vm));
        assert_eq!(policy.check(&request, &host), apply, "node {}", host.id());
    }
}

/// <https://docs.openstack.org/placement/latest/user/index.html>: capacity is (total - reserved) × ratio;
/// a claim lies between min_unit and max_unit and is a multiple of step_size.
#[test]
fn capacity_is_placements_formula_in_every_corner() {
    let over = |total, reserved, ratio| InventoryOverride {
        total: Some(total),
        reserved: Some(reserved),
        allocation_ratio_thousandths: Some(ratio),
        ..InventoryOverride::default()
    };
    let units = |min_unit, max_unit, step_size| InventoryOverride {
        min_unit: Some(min_unit),
        max_unit: Some(max_unit),
        step_size: Some(step_size),
        ..over(8, 0, 1000)
    };
    let cases = [
        // Zero inventory, reserved above total, ratio below 1 and above.
        (over(0, 0, 4000), 1, refused("VCPU: 1 wanted, 0 free of 0")),
        (over(4, 9, 4000), 1, refused("VCPU: 1 wanted, 0 free of 0")),
        (over(8, 0, 500), 4, Ok(())),
        (over(8, 0, 500), 5, refused("VCPU: 5 wanted, 4 free of 4")),
        (over(3, 0, 500), 1, Ok(())),
        (over(3, 0, 500), 2, refused("VCPU: 2 wanted, 1 free of 1")),
        (over(2, 1, 4000), 2, Ok(())),
        // One VM gets what the host has at most, however often that is claimed: Nova's drivers report `max_unit` = total.
        (over(2, 0, 4000), 3, refused("VCPU: 3 wanted, a VM gets 1 to 2")),
        (over(2, 0, 4000), 9, refused("VCPU: 9 wanted, 8 free of 8")),
        (InventoryOverride { max_unit: Some(4), ..over(2, 1, 4000) }, 4, Ok(())),
        (units(2, 6, 2), 4, Ok(())),
        (units(2, 6, 2), 1, refused("VCPU: 1 wanted, a VM gets 2 to 6, in steps of 2")),
        (units(2, 6, 2), 3, refused("VCPU: 3 wanted, a VM gets 2 to 6, in steps of 2")),
        (units(2, 6, 2), 8, refused("VCPU: 8 wanted, a VM gets 2 to 6, in steps of 2")),
        (units(2, u64::MAX, 2), 1, refused("VCPU: 1 wanted, a VM gets 2 at least, in steps of 2")),
    ];
    for (inventory, vcpus, expected) in cases {
        let mut cluster = Cluster::of(&[MEDIUM]);
        let vm = cluster.vm(Size { vcpus, ..SMALL_VM });
        cluster.update(1, |node| {
            node.inventory.insert(ResourceClass::Vcpu, Some(inventory.clone()));
        });
        assert_eq!(verdicts(&cluster, "Capacity", vm), [expected], "{vcpus} of {inventory:?}");
    }
}

/// The same page: units are of the amount that is asked for. What the VMM needs beside the guest counts as capacity.
#[test]
fn capacity_takes_memory_in_units_of_what_the_guest_gets() {
    let cases = [
        // Least, greatest and step of MEMORY_MB, of 4096 MiB; what the VM asks for.
        ((1, u64::MAX, 1024), 2048, Ok(())),
        ((1, 2048, 1), 2048, Ok(())),
        ((2048, u64::MAX, 1), 2048, Ok(())),
        ((2048, u64::MAX, 1), 2046, refused("MEMORY_MB: 2046 wanted, a VM gets 2048 at least")),
        ((1, 2048, 1), 2050, refused("MEMORY_MB: 2050 wanted, a VM gets 1 to 2048")),
        (
            (1, u64::MAX, 1024),
            2032,
            refused("MEMORY_MB: 2032 wanted, a VM gets 1 at least, in steps of 1024"),
        ),
        // 16 MiB of overhead no longer fit.
        ((1, u64::MAX, 1024), 4096, refused("MEMORY_MB: 4112 wanted, 4096 free of 4096")),
    ];
    for ((min, max, step), memory_mib, expected) in cases {
        let mut cluster = Cluster::of(&[HostSize { vcpus: 4, memory_mib: 4096, disk_gib: 10 }]);
        cluster.update(1, |node| {
            let units = InventoryOverride {
                min_unit: Some(min),
                max_unit: Some(max),
                step_size: Some(step),
                ..InventoryOverride::default()
            };
            node.inventory.insert(ResourceClass::MemoryMb, Some(units));
        });
        let vm = cluster.vm(Size { memory_mib, ..SMALL_VM });
        assert_eq!(
            verdicts(&cluster, "Capacity", vm),
            std::slice::from_ref(&expected),
            "{memory_mib} in {min}, {max}, {step}"
        );
        let apply = holm_model::feasible::feasible(
            &cluster.state,
            &cluster.state.nodes[&NodeId(1)],
            cluster.record(vm),
        );
        assert_eq!(apply.map_err(|(_, refusal)| refusal), expected, "apply says the same");
    }
}

/// <https://docs.openstack.org/nova/latest/configuration/extra-specs.html>, `resources:CUSTOM_…`.
#[test]
fn capacity_counts_custom_classes_and_says_when_a_node_has_none() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let gpus = ResourceClass::Custom("CUSTOM_GPU".into());
    cluster.update(2, |node| {
        let two = InventoryOverride { total: Some(2), ..InventoryOverride::default() };
        node.inventory.insert(gpus, Some(two));
    });
    let vm = cluster.vm_of(&[("resources:CUSTOM_GPU", "2")]);
    assert_eq!(verdicts(&cluster, "Capacity", vm), [refused("CUSTOM_GPU: the node has none"), Ok(())]);
    assert_eq!(cluster.placed_on(vm), Some(2));
    let more = cluster.vm_of(&[("resources:CUSTOM_GPU", "1")]);
    assert_eq!(verdicts(&cluster, "Capacity", more)[1], refused("CUSTOM_GPU: 1 wanted, 0 free of 2"));
}

/// <https://docs.openstack.org/nova/latest/admin/availability-zones.html>
#[test]
fn availability_zone_wants_the_zone_that_was_asked_for() {
    let mut cluster = Cluster::of(&[MEDIUM; 3]);
    cluster.aggregate(1, &[1], &[("availability_zone", "bow")]);
    cluster.aggregate(2, &[2], &[("availability_zone", "stern")]);
    let zone = |zone: &str| Scheduling { availability_zone: Some(zone.into()), ..Scheduling::default() };
    let (anywhere, bow) = (cluster.vm(SMALL_VM), cluster.vm_like(zone("bow")));
    let rest = cluster.vm_like(zone("default"));
    assert_eq!(verdicts(&cluster, "AvailabilityZone", anywhere), [Ok(()), Ok(()), Ok(())]);
    let expected = [
        Ok(()),
        refused("zone: `bow` wanted, the node is in `stern`"),
        refused("zone: `bow` wanted, the node is in `default`"),
    ];
    assert_eq!(verdicts(&cluster, "AvailabilityZone", bow), expected);
    assert_eq!(passes(&cluster, "AvailabilityZone", rest), [false, false, true]);
}

/// <https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#operators>
#[test]
fn node_selector_compares_labels_as_kubernetes_does() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    cluster.update(1, |node| {
        node.labels.insert("disk".into(), Some("nvme".into()));
        node.labels.insert("rack".into(), Some("7".into()));
    });
    let no = |label: &str, detail: &str| refused(&format!("label `{label}`: {detail}"));
    let none = |label: &str, wanted: &str| no(label, &format!("{wanted} wanted, the node has none"));
    let nvme = |wanted: &str| no("disk", &format!("{wanted} wanted, it is `nvme`"));
    let cases = [
        ("disk", Operator::In, &["ssd", "nvme"][..], Ok(()), none("disk", "ssd or nvme")),
        ("disk", Operator::In, &["ssd"], nvme("ssd"), none("disk", "ssd")),
        ("disk", Operator::NotIn, &["nvme"], nvme("other than nvme"), Ok(())),
        ("disk", Operator::NotIn, &["ssd"], Ok(()), Ok(())),
        ("disk", Operator::Exists, &[], Ok(()), none("disk", "any value")),
        ("disk", Operator::DoesNotExist, &[], nvme("none"), Ok(())),
        ("rack", Operator::Gt, &["6"], Ok(()), none("rack", "more than 6")),
        (
            "rack",
            Operator::Gt,
            &["7"],
            no("rack", "more than 7 wanted, it is `7`"),
            none("rack", "more than 7"),
        ),
        ("rack", Operator::Lt, &["10"], Ok(()), none("rack", "less than 10")),
        ("disk", Operator::Gt, &["1"], nvme("more than 1"), none("disk", "more than 1")),
    ];
    for (key, operator, values, first, second) in cases {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let node_selector = vec![Requirement { key: key.into(), operator, values }];
        let vm = cluster.vm_like(Scheduling { node_selector, ..Scheduling::default() });
        assert_eq!(verdicts(&cluster, "NodeSelector", vm), [first, second], "{key} {operator:?}");
    }
}

/// <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>
#[test]
fn taints_refuse_what_does_not_tolerate_them() {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let taint = |effect| Taint { key: "gpu".into(), value: "yes".into(), effect };
    let tolerate = |key: Option<&str>, value: Option<&str>, effect| Toleration {
        key: key.map(str::to_owned),
        value: value.map(str::to_owned),
        effect,
    };
    let hard = Some(Effect::NoSchedule);
    let cases = [
        (vec![], false),
        (vec![tolerate(Some("gpu"), Some("yes"), hard)], true),
        (vec![tolerate(Some("gpu"), None, None)], true),
        (vec![tolerate(None, None, None)], true),
        (vec![tolerate(Some("gpu"), Some("no"), hard)], false),
        (vec![tolerate(Some("disk"), None, None)], false),
        (vec![tolerate(Some("gpu"), None, Some(Effect::PreferNoSchedule))], false),
    ];
    for (tolerations, fits) in cases {
        let vm = cluster.vm_like(Scheduling { tolerations: tolerations.clone(), ..Scheduling::default() });
        cluster.update(1, |node| node.taints = Some(BTreeSet::from([taint(Effect::NoSchedule)])));
        let refusal = refused("taint `gpu=yes`: the VM does not tolerate it");
        let expected = if fits { Ok(()) } else { refusal };
        assert_eq!(verdicts(&cluster, "Taints", vm), [expected], "{tolerations:?}");
        // A preference refuses nobody.
        cluster.update(1, |node| node.taints = Some(BTreeSet::from([taint(Effect::PreferNoSchedule)])));
        assert_eq!(verdicts(&cluster, "Taints", vm), [Ok(())]);
    }
}

/// <https://docs.openstack.org/nova/latest/user/server-groups.html>
#[test]
fn server_group_keeps_members_together_or_apart() {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let member = |group| Scheduling { group: Some(group), ..Scheduling::default() };
    let there = |cluster: &mut Cluster, group| {
        let vm = cluster.create(SMALL_VM, |vm| {
            vm.scheduling = member(group);
            vm.node = Some(NodeId(1));
        });
        assert_eq!(cluster.placed_on(vm), Some(1));
    };
    let together = cluster.group(1, GroupPolicy::Affinity, None);
    let first = cluster.vm_like(member(together));
    assert_eq!(verdicts(&cluster, "ServerGroup", first), [Ok(()), Ok(())], "the first goes anywhere");
    there(&mut cluster, together);
    let next = cluster.vm_like(member(together));
    let elsewhere = refused("affinity: group `group1` is on another node");
    assert_eq!(verdicts(&cluster, "ServerGroup", next), [Ok(()), elsewhere]);

    let apart = cluster.group(2, GroupPolicy::AntiAffinity, None);
    there(&mut cluster, apart);
    let next = cluster.vm_like(member(apart));
    let here = refused("anti-affinity: 1 of group `group2` here, 1 allowed");
    assert_eq!(verdicts(&cluster, "ServerGroup", next), [here, Ok(())]);

    let pairs = cluster.group(3, GroupPolicy::AntiAffinity, Some(2));
    there(&mut cluster, pairs);
    let next = cluster.vm_like(member(pairs));
    assert_eq!(passes(&cluster, "ServerGroup", next), [true, true]);
    there(&mut cluster, pairs);
    assert_eq!(passes(&cluster, "ServerGroup", next), [false, true]);

    let soft = cluster.group(4, GroupPolicy::SoftAntiAffinity, None);
    there(&mut cluster, soft);
    let next = cluster.vm_like(member(soft));
    assert_eq!(passes(&cluster, "ServerGroup", next), [true, true]);
}
