//! Realistic clusters (`tests/fixtures/*.json`), each with a VM that asks for a host and the explanation a
//! person gets (`*.txt`). `HOLM_WRITE_GOLDEN=1` writes an explanation that is missing; read it before
//! committing it: it must be clear to somebody who knows the cluster and not the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::parts::{Offer, PCPU, PciDevice};
use holm_model::policy::RESERVE_AFTER_S;
use holm_model::resources::InventoryOverride;
use holm_model::scheduling::{Scheduling, Taint, Toleration};
use holm_model::vm::{Availability, DiskLoss};
use holm_model::{GroupId, Inventory, NodeId, ResourceClass, State, Timestamp, VmId};
use holm_sched::controllers::Placement;
use holm_sched::explain::{HostVerdict, Verdict};
use holm_sched::preempt::Eviction;
use holm_sched::{Controller, Explanation, Facts, Policy, explain, n_plus_one};
use serde::Deserialize;

use crate::cluster::{Cluster, HostSize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    about: String,
    nodes: Vec<Host>,
    #[serde(default)]
    aggregates: Vec<Members>,
    #[serde(default)]
    groups: Vec<Group>,
    /// Switched on beside the default ones.
    #[serde(default)]
    filters: Vec<String>,
    /// Multipliers that differ from the default.
    #[serde(default)]
    weighers: BTreeMap<String, i64>,
    #[serde(default)]
    preemption: bool,
    #[serde(default)]
    vms: Vec<Guest>,
    /// It has waited long when `ask` comes.
    waits: Option<Guest>,
    ask: Guest,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    name: String,
    vcpus: u64,
    memory_mib: u64,
    disk_gib: u64,
    address: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    taints: BTreeSet<Taint>,
    #[serde(default)]
    traits: BTreeSet<String>,
    #[serde(default)]
    capabilities: BTreeMap<String, String>,
    #[serde(default)]
    inventory: BTreeMap<ResourceClass, InventoryOverride>,
    #[serde(default)]
    failed_builds: u32,
    /// CPUs for pinned vCPUs, by NUMA node.
    #[serde(default)]
    dedicated_cpus: BTreeMap<u32, Vec<u32>>,
    /// PCI devices by address.
    #[serde(default)]
    devices: BTreeMap<String, PciDevice>,
    #[serde(default)]
    down: bool,
    cordoned: Option<String>,
    /// The leader has not heard from it for a moment.
    #[serde(default)]
    silent: bool,
}

#[derive(Deserialize)]
struct Members {
    nodes: Vec<String>,
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    policy: GroupPolicy,
    max_server_per_host: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Guest {
    vcpus: u32,
    memory_mib: u64,
    disk_gib: u64,
    count: Option<u32>,
    name: Option<String>,
    on: Option<String>,
    group: Option<String>,
    tolerate: Option<String>,
    #[serde(default)]
    apart_from: Vec<String>,
    #[serde(default)]
    extra_specs: BTreeMap<String, String>,
    #[serde(default)]
    image_properties: BTreeMap<String, String>,
    #[serde(default)]
    scheduling: Scheduling,
    #[serde(default)]
    availability: Availability,
}

fn pairs(map: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    map.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// The cluster, and the VM that asks.
fn build(fixture: &Fixture) -> (Cluster, VmId) {
    let size =
        |host: &Host| HostSize { vcpus: host.vcpus, memory_mib: host.memory_mib, disk_gib: host.disk_gib };
    let mut cluster = Cluster::of(&fixture.nodes.iter().map(size).collect::<Vec<_>>());
    for (n, host) in (1..).zip(&fixture.nodes) {
        let mut node = cluster.state.nodes.get_mut(&NodeId(n)).expect("it exists");
        node.name.clone_from(&host.name);
        node.failed_builds = host.failed_builds;
        if let Some(address) = &host.address {
            node.api_addr.clone_from(address);
        }
        drop(node);
        cluster.report_with(n, |report| {
            report.capabilities.clone_from(&host.capabilities);
            let cpus =
                host.dedicated_cpus.iter().flat_map(|(numa, cpus)| cpus.iter().map(|cpu| (*cpu, *numa)));
            report.offer = Offer { cpus: cpus.collect(), devices: host.devices.clone() };
            if !report.offer.cpus.is_empty() {
                let dedicated = Inventory::of(report.offer.cpus.len() as u64);
                report.inventory.insert(ResourceClass::Custom(PCPU.into()), dedicated);
            }
        });
        cluster.update(n, |update| {
            update.labels = host.labels.iter().map(|(k, v)| (k.clone(), Some(v.clone()))).collect();
            update.taints = Some(host.taints.clone());
            update.traits = Some(host.traits.clone());
            update.inventory = host.inventory.iter().map(|(k, v)| (k.clone(), Some(v.clone()))).collect();
        });
    }
    let number =
        |name: &String| 1 + fixture.nodes.iter().position(|host| host.name == *name).expect("a node") as u64;
    for (n, aggregate) in (1..).zip(&fixture.aggregates) {
        let nodes: Vec<u64> = aggregate.nodes.iter().map(number).collect();
        cluster.aggregate(n, &nodes, &pairs(&aggregate.metadata));
    }
    for (n, group) in (1..).zip(&fixture.groups) {
        let id = cluster.group(n, group.policy, group.max_server_per_host);
        cluster.state.groups.get_mut(&id).expect("it exists").name.clone_from(&group.name);
    }
    for guest in &fixture.vms {
        for _ in 0..guest.count.unwrap_or(1) {
            let on = guest.on.as_ref().map(number);
            let failover = guest.availability == Availability::Failover;
            let vm = create(&mut cluster, guest, on.filter(|_| !failover));
            // One that fails over may not ask for a node: it is brought there, and then free to go.
            let bind = |cluster: &mut Cluster, node: Option<u64>| {
                cluster.state.vms.get_mut(&vm).expect("it exists").spec.node = node.map(NodeId);
            };
            bind(&mut cluster, on);
            assert_eq!(cluster.placed_on(vm), on, "{}", fixture.about);
            if failover {
                bind(&mut cluster, None);
                cluster.tell_armed(vm, cluster.record(vm).recovery.availability_revision);
            } else {
                cluster.run(vm);
            }
        }
    }
    for (n, host) in (1..).zip(&fixture.nodes) {
        if host.down {
            cluster.set_up(n, false);
        }
        if let Some(reason) = &host.cordoned {
            cluster.cordon(n, reason);
        }
        cluster.state.nodes.get_mut(&NodeId(n)).expect("it exists").failed_builds = host.failed_builds;
    }
    cluster.policy(|policy| {
        policy.filters.extend(fixture.filters.iter().cloned());
        policy.weighers.extend(fixture.weighers.clone());
        policy.preemption = fixture.preemption;
    });
    if let Some(guest) = &fixture.waits {
        let vm = create(&mut cluster, guest, None);
        for _ in 0..2 {
            assert_eq!(cluster.placed_on(vm), None, "{}", fixture.about);
            cluster.now = Timestamp(cluster.now.0 + u64::from(RESERVE_AFTER_S) * 1000);
        }
        assert!(cluster.record(vm).reserved.is_some(), "{}: a host is kept for it", fixture.about);
    }
    let vm = create(&mut cluster, &fixture.ask, None);
    (cluster, vm)
}

fn create(cluster: &mut Cluster, guest: &Guest, on: Option<u64>) -> VmId {
    let size = Size { vcpus: guest.vcpus, memory_mib: guest.memory_mib, disk_gib: guest.disk_gib };
    let flavor = cluster.flavor_with(size, &pairs(&guest.extra_specs));
    let images = cluster.state.images.len() as u128;
    let image = (!guest.image_properties.is_empty())
        .then(|| cluster.image(images + 1, &pairs(&guest.image_properties)));
    let group = |name: &String| -> GroupId { cluster.state.find_group("default", name).expect("a group").id };
    let mut scheduling = guest.scheduling.clone();
    scheduling.group = guest.group.as_ref().map(group);
    scheduling.different_host = guest
        .apart_from
        .iter()
        .map(|name| cluster.state.find_vm("default", name).expect("a VM").id)
        .collect();
    let tolerated = guest.tolerate.as_ref();
    scheduling.tolerations.extend(tolerated.map(|key| Toleration {
        key: Some(key.clone()),
        value: None,
        effect: None,
    }));
    cluster.create_of(flavor, |vm| {
        vm.node = on.map(NodeId);
        vm.image = image.unwrap_or(vm.image);
        vm.scheduling = scheduling;
        vm.availability = guest.availability;
        vm.policies.disk_loss = DiskLoss::Recreate;
        if let Some(name) = &guest.name {
            vm.name.clone_from(name);
        }
    })
}

/// As a terminal would show it: best first, then the refused.
fn words(about: &str, state: &State, explanation: &Explanation) -> String {
    let mut text = format!("{about}\n\n");
    let mut hosts: Vec<&HostVerdict> = explanation.hosts.iter().collect();
    hosts.sort_by_key(|host| match host.verdict {
        Verdict::Fits { score_millionths, .. } => (explanation.best != Some(host.node), -score_millionths),
        Verdict::Refused { .. } => (true, i64::MAX),
    });
    let width = hosts.iter().map(|host| host.name.len()).max().unwrap_or(0);
    for host in hosts {
        let mark = if explanation.best == Some(host.node) { "*" } else { " " };
        let verdict = match &host.verdict {
            Verdict::Refused { by, message, also } => {
                let also: Vec<_> = also.iter().map(|further| further.by.as_str()).collect();
                let also =
                    if also.is_empty() { String::new() } else { format!("; also {}", also.join(", ")) };
                format!("{by}: {message}{also}")
            }
            Verdict::Fits { score_millionths, weights } => {
                let telling = weights.iter().filter(|weight| weight.normalised_millionths != 0);
                let parts: Vec<String> = telling
                    .map(|w| {
                        let share = w.normalised_millionths as f64 / 1e6;
                        format!(
                            "{} {} = {share:.2} × {}",
                            w.weigher,
                            w.raw,
                            w.multiplier_thousandths as f64 / 1e3
                        )
                    })
                    .collect();
                format!("{:.2}  {}", *score_millionths as f64 / 1e6, parts.join(", "))
            }
        };
        writeln!(text, "{mark} {:width$}  {verdict}", host.name).expect("memory");
    }
    for advice in &explanation.advice {
        let nodes: Vec<&str> = advice.nodes.iter().map(|node| state.nodes[node].name.as_str()).collect();
        let nodes = if nodes.len() > 3 { format!("{} nodes", nodes.len()) } else { nodes.join(", ") };
        write!(text, "\n{}, {nodes}: {}", advice.by, advice.fix).expect("memory");
    }
    text.push_str(if explanation.advice.is_empty() { "" } else { "\n" });
    let name = |vm: &VmId| state.vms[vm].name.clone();
    if let Some(Eviction { node, victims }) = &explanation.eviction {
        let victims: Vec<String> = victims.iter().map(name).collect();
        writeln!(text, "\n{} is evicted from {} for it", victims.join(", "), state.nodes[node].name)
            .expect("memory");
    }
    for sentence in n_plus_one(state).sentences(state) {
        writeln!(text, "\nN+1: {sentence}").expect("memory");
    }
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The VM is placed while some nodes may be dead; what its record then says.
fn decided_without(cluster: &mut Cluster, vm: VmId, unheard: BTreeSet<NodeId>) -> String {
    let facts = Facts { now: cluster.now, unheard, ..Facts::default() };
    let commands = Placement.decide(&cluster.state, &facts);
    cluster.carry_out(commands);
    let record = cluster.record(vm);
    let made = record.decision.as_ref().expect("it is placed");
    let name = |node: &NodeId| cluster.state.nodes[node].name.as_str();
    let withheld: Vec<&str> = made.withheld.iter().map(name).collect();
    let chosen = record.claim.as_ref().map_or("nowhere", |claim| name(&claim.node));
    format!("\nplaced on {chosen}; not offered, since they might have been dead: {}\n", withheld.join(", "))
}

#[test]
fn explanations_of_realistic_clusters_read_as_they_did() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).expect("the fixtures") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        seen += 1;
        let json = std::fs::read_to_string(&path).expect("a fixture");
        let fixture: Fixture =
            serde_json::from_str(&json).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (mut cluster, vm) = build(&fixture);
        let policy = Policy::of(&cluster.state.scheduler);
        let explanation = explain(&cluster.state, &policy, cluster.record(vm));
        let mut now = words(&fixture.about, &cluster.state, &explanation);
        let silent = (1..).zip(&fixture.nodes).filter(|(_, host)| host.silent).map(|(n, _)| NodeId(n));
        let unheard: BTreeSet<NodeId> = silent.collect();
        if !unheard.is_empty() {
            now += &decided_without(&mut cluster, vm, unheard.clone());
        }
        let golden = path.with_extension("txt");
        if !golden.exists() && std::env::var_os("HOLM_WRITE_GOLDEN").is_some() {
            std::fs::write(&golden, &now).expect("a golden file");
        }
        let committed = std::fs::read_to_string(&golden)
            .unwrap_or_else(|e| panic!("{}: {e}; HOLM_WRITE_GOLDEN=1 adds it", golden.display()));
        assert_eq!(now, committed, "{}", path.display());
        let best = explanation.best.filter(|best| !unheard.contains(best)).map(|node| node.0);
        assert!(unheard.is_empty() || best.is_none(), "{}: the best is silent, or why tell", path.display());
        if unheard.is_empty() {
            assert_eq!(cluster.placed_on(vm), best, "{}: what is explained is what happens", path.display());
        }
    }
    assert_eq!(seen, 15);
}
