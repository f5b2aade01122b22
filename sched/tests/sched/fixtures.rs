//! Realistic clusters (`tests/fixtures/*.json`), each with a VM that asks for a host and the explanation a
//! person gets (`*.txt`). `HOLM_WRITE_GOLDEN=1` writes an explanation that is missing; read it before
//! committing it: it must be clear to somebody who knows the cluster and not the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::resources::InventoryOverride;
use holm_model::scheduling::{Scheduling, Taint, Toleration};
use holm_model::{GroupId, NodeId, ResourceClass, VmId};
use holm_sched::explain::{HostVerdict, Verdict};
use holm_sched::{Explanation, Policy, explain};
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
    vms: Vec<Guest>,
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
    #[serde(default)]
    down: bool,
    cordoned: Option<String>,
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
        let node = cluster.state.nodes.get_mut(&NodeId(n)).expect("it exists");
        node.name.clone_from(&host.name);
        node.failed_builds = host.failed_builds;
        if let Some(address) = &host.address {
            node.api_addr.clone_from(address);
        }
        cluster.report_with(n, |report| report.capabilities.clone_from(&host.capabilities));
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
            let vm = create(&mut cluster, guest, guest.on.as_ref().map(number));
            assert_eq!(cluster.placed_on(vm), guest.on.as_ref().map(number), "{}", fixture.about);
            cluster.run(vm);
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
    });
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
        if let Some(name) = &guest.name {
            vm.name.clone_from(name);
        }
    })
}

/// As a terminal would show it: best first, then the refused.
fn words(about: &str, explanation: &Explanation) -> String {
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
            Verdict::Refused { by, message } => format!("{by}: {message}"),
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
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
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
        let now = words(&fixture.about, &explanation);
        let golden = path.with_extension("txt");
        if !golden.exists() && std::env::var_os("HOLM_WRITE_GOLDEN").is_some() {
            std::fs::write(&golden, &now).expect("a golden file");
        }
        let committed = std::fs::read_to_string(&golden)
            .unwrap_or_else(|e| panic!("{}: {e}; HOLM_WRITE_GOLDEN=1 adds it", golden.display()));
        assert_eq!(now, committed, "{}", path.display());
        let best = explanation.best.map(|node| node.0);
        assert_eq!(cluster.placed_on(vm), best, "{}: what is explained is what happens", path.display());
    }
    assert_eq!(seen, 10);
}
