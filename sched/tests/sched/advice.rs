//! What filters advise where they refuse: all there is, kept as `tests/advice.txt`, which the command line's tests read to
//! check that every command in it exists. `HOLM_WRITE_GOLDEN=1` writes it when it is missing.

use std::collections::BTreeSet;
use std::path::Path;

use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::node::{Fence, HypervisorKind, Maintenance};
use holm_model::policy::{ALWAYS, FILTERS};
use holm_model::resources::InventoryOverride;
use holm_model::scheduling::{Effect, Operator, Requirement, Scheduling, Taint};
use holm_model::vm::OnNoHost;
use holm_model::{NodeId, ResourceClass, Revision, Timestamp, VmId};
use holm_sched::candidates::{Demand, Members};
use holm_sched::controllers::Placement;
use holm_sched::request::Placed;
use holm_sched::{Controller, Facts, Filter, Host, Policy, Request, advise, explain, filters};

use crate::cluster::{Cluster, MEDIUM, SMALL_VM};

/// What is said of `vm`, `filter: advice` a line.
fn told(cluster: &Cluster, vm: VmId) -> Vec<String> {
    let explanation = explain(&cluster.state, &Policy::of(&cluster.state.scheduler), cluster.record(vm));
    explanation.advice.into_iter().map(|advice| format!("{}: {}", advice.by, advice.fix)).collect()
}

/// Of a plain VM, after `change`.
fn after(hosts: usize, change: impl FnOnce(&mut Cluster)) -> Vec<String> {
    let mut cluster = Cluster::of(&vec![MEDIUM; hosts]);
    change(&mut cluster);
    let vm = cluster.vm(SMALL_VM);
    told(&cluster, vm)
}

/// Of a VM that asks so, on one node with the label `slow=yes`.
fn asking(scheduling: Scheduling) -> Vec<String> {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.update(1, |update| update.labels = [("slow".to_owned(), Some("yes".to_owned()))].into());
    cluster.aggregate(1, &[], &[("availability_zone", "left")]);
    let vm = cluster.vm_like(scheduling);
    told(&cluster, vm)
}

fn selecting(key: &str, operator: Operator, values: &[&str]) -> Vec<String> {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    let requirement = Requirement { key: key.to_owned(), operator, values };
    asking(Scheduling { node_selector: vec![requirement], ..Scheduling::default() })
}

/// Of a VM whose flavor says so, on one node with the trait `CUSTOM_LOUD`.
fn with_spec(key: &str, value: &str) -> Vec<String> {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.update(1, |update| update.traits = Some(BTreeSet::from(["CUSTOM_LOUD".to_owned()])));
    cluster.report_with(1, |report| report.traits = BTreeSet::from(["HW_CPU_X86_VMX".to_owned()]));
    cluster.policy(|policy| policy.filters.push("AggregateExtraSpecs".to_owned()));
    let vm = cluster.vm_of(&[(key, value)]);
    told(&cluster, vm)
}

fn tainted(value: &str) -> Vec<String> {
    after(1, |cluster| {
        let taint = Taint { key: "gpu".into(), value: value.into(), effect: Effect::NoSchedule };
        cluster.update(1, |update| update.taints = Some(BTreeSet::from([taint])));
    })
}

/// Of a VM so large, beside one that has most of the node.
fn beside(vcpus: u32, memory_mib: u64, max_unit: Option<u64>) -> Vec<String> {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let first = cluster.vm_with(Size { vcpus: 6, memory_mib: 4096, disk_gib: 1 }, None, OnNoHost::Queue);
    assert_eq!(cluster.placed_on(first), Some(1));
    let over = InventoryOverride { max_unit, ..InventoryOverride::default() };
    cluster.update(1, |update| update.inventory = [(ResourceClass::Vcpu, Some(over))].into());
    let vm = cluster.vm(Size { vcpus, memory_mib, disk_gib: 1 });
    told(&cluster, vm)
}

/// Of a second member of a group, when the first has the only open node.
fn grouped(policy: GroupPolicy) -> Vec<String> {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let group = Some(cluster.group(1, policy, None));
    cluster.cordon(2, "later");
    let first = cluster.vm_like(Scheduling { group, ..Scheduling::default() });
    assert_eq!(cluster.placed_on(first), Some(1));
    let second = cluster.vm_like(Scheduling { group, ..Scheduling::default() });
    if policy == GroupPolicy::Affinity {
        cluster.cordon(1, "full");
        cluster.state.nodes.get_mut(&NodeId(2)).expect("it exists").enabled = true;
    }
    told(&cluster, second)
}

fn beside_another(placed: bool) -> Vec<String> {
    let mut cluster = Cluster::of(&[MEDIUM; 2]);
    let other = cluster.vm_with(SMALL_VM, Some(1), OnNoHost::Queue);
    if placed {
        assert_eq!(cluster.placed_on(other), Some(1));
    }
    let vm = cluster.vm_like(Scheduling { same_host: [other].into(), ..Scheduling::default() });
    told(&cluster, vm)
}

/// Of filters that advise the same whatever the VM and the host.
fn always_the_same() -> Vec<String> {
    let mut cluster = Cluster::of(&[MEDIUM]);
    let vm = cluster.vm(SMALL_VM);
    let (request, hosts) =
        (Request::new(&cluster.state, &Placed::new(), cluster.record(vm)), Host::all(&cluster.state));
    let listed =
        FILTERS.iter().map(|(name, _)| filters::by_name(name, &cluster.state.scheduler).expect("it exists"));
    let others: [Box<dyn Filter>; 3] =
        [Box::new(filters::DedicatedCpu), Box::new(filters::PciDevices), Box::new(filters::Reserved)];
    let all = listed.chain(others);
    let said = all.map(|filter| (filter.name(), filter.fix(&request, &hosts[0])));
    let branching = [
        "ComputeStatus",
        "AvailabilityZone",
        "NodeSelector",
        "Taints",
        "Traits",
        "ServerGroup",
        "SameHost",
        "Capacity",
        "AggregateExtraSpecs",
    ];
    said.filter(|(name, _)| !branching.contains(name)).map(|(name, fix)| format!("{name}: {fix}")).collect()
}

/// Of a question for candidates, on a node that is in an aggregate and has a trait.
fn demanded(demand: impl FnOnce(Members) -> Demand) -> Vec<String> {
    let mut cluster = Cluster::of(&[MEDIUM]);
    cluster.aggregate(1, &[], &[]);
    cluster.update(1, |update| update.traits = Some(BTreeSet::from(["CUSTOM_LOUD".to_owned()])));
    let vm = cluster.vm(SMALL_VM);
    let demand = demand(cluster.state.aggregates.values().collect());
    let policy = Policy::of(&cluster.state.scheduler).demanding([demand]);
    let explanation = explain(&cluster.state, &policy, cluster.record(vm));
    explanation.advice.into_iter().map(|advice| format!("{}: {}", advice.by, advice.fix)).collect()
}

fn everything() -> BTreeSet<String> {
    let zone = Scheduling { availability_zone: Some("left".into()), ..Scheduling::default() };
    let cases = [
        after(1, |cluster| cluster.set_up(1, false)),
        after(1, |cluster| {
            let mut node = cluster.state.nodes.get_mut(&NodeId(1)).expect("it exists");
            (node.up, node.report) = (false, None);
        }),
        after(1, |cluster| cluster.cordon(1, "new fan")),
        after(1, |cluster| {
            let mut node = cluster.state.nodes.get_mut(&NodeId(1)).expect("it exists");
            (node.enabled, node.maintenance) =
                (false, Some(Maintenance { since: Timestamp(1), reason: None }));
        }),
        after(1, |cluster| {
            let fence = Fence { at: Timestamp(1), revision: Revision(1), lost: Default::default() };
            cluster.state.nodes.get_mut(&NodeId(1)).expect("it exists").fence = Some(fence);
        }),
        after(1, |cluster| {
            cluster.report_with(1, |report| {
                report.hypervisor.kind = HypervisorKind::CloudHypervisor;
                report.hypervisor.reason = "there is no /dev/kvm".into();
            });
        }),
        after(1, |cluster| cluster.state.scheduler.filters.push("Luck".into())),
        asking(zone),
        selecting("disk", Operator::In, &["nvme", "ssd"]),
        selecting("slow", Operator::NotIn, &["yes"]),
        selecting("slow", Operator::DoesNotExist, &[]),
        selecting("disk", Operator::Exists, &[]),
        selecting("cores", Operator::Gt, &["8"]),
        tainted(""),
        tainted("yes"),
        with_spec("trait:CUSTOM_QUIET", "required"),
        with_spec("trait:CUSTOM_LOUD", "forbidden"),
        with_spec("trait:HW_CPU_X86_VMX", "forbidden"),
        with_spec("aggregate_instance_extra_specs:ssd", "true"),
        with_spec("resources:CUSTOM_GPU", "1"),
        with_spec("hw:cpu_policy", "dedicated"),
        beside(4, 512, None),
        beside(1, 6000, None),
        beside(4, 512, Some(2)),
        beside(2, 16_000, None),
        grouped(GroupPolicy::Affinity),
        grouped(GroupPolicy::AntiAffinity),
        beside_another(false),
        beside_another(true),
        demanded(|_| Demand::AnyTrait(vec!["CUSTOM_QUIET".into(), "CUSTOM_GPU".into()])),
        demanded(|_| Demand::NoTrait("CUSTOM_LOUD".into())),
        demanded(Demand::AnyAggregate),
        always_the_same(),
    ];
    for case in &cases {
        assert!(!case.is_empty(), "something is refused in every case");
    }
    cases.into_iter().flatten().collect()
}

#[test]
fn every_filter_says_what_to_do_next_and_every_word_of_it_is_kept() {
    let all = everything();
    for name in FILTERS.iter().map(|(name, _)| name).chain(ALWAYS) {
        let mut own = all.iter().filter(|line| line.starts_with(&format!("{name}: "))).peekable();
        assert!(own.peek().is_some(), "{name} says nothing");
        assert!(own.all(|line| line.len() > name.len() + 20), "{name} says too little");
    }
    let now: String = all.into_iter().map(|line| line + "\n").collect();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/advice.txt");
    if !golden.exists() && std::env::var_os("HOLM_WRITE_GOLDEN").is_some() {
        std::fs::write(&golden, &now).expect("a golden file");
    }
    let committed = std::fs::read_to_string(&golden)
        .unwrap_or_else(|e| panic!("{}: {e}; HOLM_WRITE_GOLDEN=1 adds it", golden.display()));
    assert_eq!(now, committed);
}

#[test]
fn hosts_with_the_same_advice_are_told_together_and_a_single_one_by_name() {
    let mut cluster = Cluster::of(&[MEDIUM; 4]);
    cluster.cordon(1, "later");
    cluster.cordon(2, "later");
    cluster.set_up(3, false);
    let vm = cluster.vm(SMALL_VM);
    let explanation = explain(&cluster.state, &Policy::default(), cluster.record(vm));
    let told: Vec<_> = explanation.advice.iter().map(|a| (a.nodes.clone(), a.fix.as_str())).collect();
    let down = "bring it back (`holm node show n3` says since when it is silent); one that is gone for good: \
                `holm node remove n3 --confirm-node-off`";
    let cordoned = "open it again: `holm node uncordon NODE`";
    assert_eq!(told, [(vec![NodeId(1), NodeId(2)], cordoned), (vec![NodeId(3)], down)]);
}

/// A record is looked at more often than explained: what it says costs no judgement of every host.
#[test]
fn a_record_is_advised_about_the_hosts_it_names() {
    let mut cluster = Cluster::of(&[MEDIUM; 50]);
    (1..=50).for_each(|n| cluster.cordon(n, "later"));
    let vm = cluster.vm(SMALL_VM);
    let commands = Placement.decide(&cluster.state, &Facts { now: cluster.now, ..Facts::default() });
    cluster.carry_out(commands);
    let policy = Policy::of(&cluster.state.scheduler);
    let told = advise(&cluster.state, &policy, cluster.record(vm));
    let named: Vec<_> = cluster.record(vm).refusals.iter().map(|refusal| refusal.node).collect();
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0].nodes, told[0].fix.as_str()), (&named, "open it again: `holm node uncordon NODE`"));
    assert!(named.len() < 50, "{}", named.len());
    // What no longer refuses needs no advice.
    named.iter().for_each(|node| cluster.state.nodes.get_mut(node).expect("it exists").enabled = true);
    assert_eq!(advise(&cluster.state, &policy, cluster.record(vm)), []);
}
