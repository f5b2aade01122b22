//! How long a placement decision takes. Prints one JSON object a line, in the form `cargo xtask bench`
//! collects: `{name, unit, value, p50, p99, max, note}`. Run it with `--release`; `--quick`
//! for fewer rounds, or the end of a name for one case alone.
#![allow(clippy::disallowed_methods, reason = "it measures time; the library does not")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use holm_model::aggregate::Aggregate;
use holm_model::command::Command;
use holm_model::flavor::Size;
use holm_model::group::{GroupPolicy, ServerGroup};
use holm_model::image::{Image, ImageKind};
use holm_model::node::{HypervisorFacts, HypervisorKind, Node, NodeReport};
use holm_model::scheduling::{Effect, Scheduling, Taint};
use holm_model::state::Leadership;
use holm_model::vm::{OnNoHost, Power, StopMode, TaskState, Vm, VmSpec, VmStatus, WantPower};
use holm_model::{
    AggregateId, BootId, FlavorId, GroupId, ImageId, Incarnation, Inventory, NodeId, ResourceClass,
    Resources, Revision, State, Timestamp, VmId,
};
use holm_sched::controllers::Placement;
use holm_sched::{Controller, Facts};
use uuid::Uuid;

/// What waits in a benchmark's queue.
#[derive(Clone, Copy, Default)]
struct Queue {
    vms: u64,
    /// Flavors among them.
    shapes: u64,
    /// Anti-affinity groups they are in, if any.
    groups: u64,
    /// Asks for more than any host has.
    impossible: bool,
}

fn main() {
    let rounds = if std::env::args().any(|arg| arg == "--quick") { 20 } else { 200 };
    let only = std::env::args().nth(1).filter(|arg| !arg.starts_with("--"));
    let one = Queue { vms: 1, shapes: 1, ..Queue::default() };
    let batch = |vms, shapes| Queue { vms, shapes, ..Queue::default() };
    let mut cases = vec![(10_000, "one VM", one)];
    for hosts in [100, 1000] {
        cases.push((hosts, "one VM", one));
        cases.push((hosts, "one VM that fits nowhere", Queue { impossible: true, ..one }));
        cases.push((hosts, "100 VMs that fit nowhere", Queue { impossible: true, ..batch(100, 1) }));
        cases.push((hosts, "batch of 100, one shape", batch(100, 1)));
        cases.push((hosts, "batch of 100, 100 shapes", batch(100, 100)));
    }
    cases.push((1000, "batch of 1000, one shape", batch(1000, 1)));
    cases.push((1000, "batch of 1000 in 200 groups", Queue { groups: 200, ..batch(1000, 1) }));
    for (hosts, label, queue) in cases {
        let name = format!("placement decision, {hosts} hosts, {label}");
        if only.as_ref().is_some_and(|only| !name.ends_with(only)) {
            continue;
        }
        let state = cluster(hosts, queue);
        let rounds = if queue.vms >= 1000 || hosts > 1000 { rounds / 10 } else { rounds };
        let mut times = measure(&state, queue, rounds);
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let line = serde_json::json!({
            "name": name,
            "unit": "us/VM",
            "value": at(0.5), "min": at(0.0), "p50": at(0.5), "p99": at(0.99), "max": at(1.0),
            "note": format!("{rounds} decisions, default filters and weighers, 10 VMs on each host"),
        });
        println!("{line}");
    }
}

fn measure(state: &State, queue: Queue, rounds: usize) -> Vec<f64> {
    let controller = Placement;
    let facts = Facts::default();
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            let commands = controller.decide(state, &facts);
            let elapsed = start.elapsed().as_secs_f64() * 1e6;
            let placed = matches!(commands.as_slice(), [Command::PlaceVms(_)]);
            let expected = if queue.impossible { queue.vms as usize } else { 1 };
            assert_eq!(commands.len(), expected, "all fit, or none fits anywhere");
            assert_eq!(placed, !queue.impossible);
            elapsed / queue.vms as f64
        })
        .collect()
}

/// Ids as random as real ones.
fn random_id(n: u64) -> VmId {
    VmId(Uuid::from_u128(u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)))
}

/// Hosts of several sizes, each somewhat full, two zones, some taints, some builds going on, and a queue.
fn cluster(hosts: u64, queue: Queue) -> State {
    let incarnation = Incarnation(Uuid::from_u128(1));
    let leadership =
        Leadership { node: NodeId(1), term: 1, incarnation, revision: Revision(1), at: Timestamp(0) };
    let mut state = State { leadership: Some(leadership), ..State::default() };
    for n in 1..=hosts {
        state.nodes.insert(NodeId(n), node(n));
        let vms = (0..10).map(|vm| random_id(1_000_000 + n * 10 + vm)).collect();
        state.vms_by_node.insert(NodeId(n), vms);
        if n % 8 == 0 {
            state.building.insert((NodeId(n), random_id(1_000_000 + n * 10)));
        }
    }
    for zone in 0..2 {
        let aggregate = zone_of(zone, hosts);
        state.aggregates.insert(aggregate.id, aggregate);
    }
    let image = image(hosts);
    state.images.insert(image.id, image);
    for n in 0..queue.groups {
        let group = group(n);
        state.groups.insert(group.id, group);
    }
    for n in 1..=queue.vms {
        let id = random_id(n);
        let mut vm = vm(id, n % queue.shapes);
        if queue.impossible {
            vm.spec.size.memory_mib = 1 << 30;
        }
        if queue.groups > 0 {
            let group = group(n % queue.groups).id;
            vm.spec.scheduling.group = Some(group);
            state.group_members.entry(group).or_default().insert(id);
        }
        state.vms.insert(id, vm);
        state.waiting.insert(id);
    }
    state
}

fn zone_of(zone: u64, hosts: u64) -> Aggregate {
    Aggregate {
        id: AggregateId(Uuid::from_u128(u128::from(zone))),
        name: format!("zone{zone}"),
        nodes: (1..=hosts).filter(|n| n % 2 == zone).map(NodeId).collect(),
        metadata: BTreeMap::from([("availability_zone".into(), format!("zone{zone}"))]),
        inventory: BTreeMap::new(),
        created_at: Timestamp(0),
        revision: Revision(1),
    }
}

fn image(hosts: u64) -> Image {
    Image {
        id: ImageId(Uuid::from_u128(1)),
        project: "default".into(),
        name: "guest".into(),
        kind: ImageKind::Kernel,
        size_bytes: 1 << 20,
        sha256: String::new(),
        properties: BTreeMap::new(),
        holders: (1..=hosts).filter(|n| n % 3 == 0).map(NodeId).collect(),
        created_at: Timestamp(0),
        revision: Revision(1),
    }
}

fn group(n: u64) -> ServerGroup {
    ServerGroup {
        id: GroupId(Uuid::from_u128(u128::from(n))),
        project: "default".into(),
        name: format!("group{n}"),
        policy: GroupPolicy::AntiAffinity,
        max_server_per_host: None,
        created_at: Timestamp(0),
        revision: Revision(1),
    }
}

fn node(n: u64) -> Node {
    let offered = |total, ratio| Inventory {
        reserved: total / 20,
        allocation_ratio_thousandths: ratio,
        ..Inventory::of(total)
    };
    let (vcpus, memory_mib) = (16 + n % 4 * 16, 65_536 + n % 3 * 65_536);
    let inventory = BTreeMap::from([
        (ResourceClass::Vcpu, offered(vcpus, 4000)),
        (ResourceClass::MemoryMb, offered(memory_mib, 1000)),
        (ResourceClass::DiskGb, offered(1000, 1000)),
    ]);
    let taint = Taint { key: "old".into(), value: String::new(), effect: Effect::PreferNoSchedule };
    Node {
        id: NodeId(n),
        name: format!("n{n}"),
        peer_addr: String::new(),
        api_addr: String::new(),
        enabled: true,
        disabled_reason: None,
        up: true,
        up_changed_at: Timestamp(0),
        report: Some(NodeReport {
            boot_id: BootId(Uuid::from_u128(1)),
            version: String::new(),
            hypervisor: HypervisorFacts {
                kind: HypervisorKind::Simulated,
                version: "v53.0".into(),
                reason: String::new(),
            },
            inventory: inventory.clone(),
            conditions: BTreeMap::new(),
            capabilities: BTreeMap::new(),
            traits: BTreeSet::new(),
            load_thousandths: n % 7 * 100,
            orphans: Default::default(),
            offer: Default::default(),
        }),
        report_sequence: 1,
        past_boots: Vec::new(),
        boot_revision: Revision::default(),
        allocated: Resources::from_iter([
            (ResourceClass::Vcpu, n * 7 % 13),
            (ResourceClass::MemoryMb, n * 997 % 30_000),
            (ResourceClass::DiskGb, n % 50),
        ]),
        inventory,
        inventory_overrides: BTreeMap::new(),
        labels: BTreeMap::new(),
        taints: if n.is_multiple_of(10) { BTreeSet::from([taint]) } else { BTreeSet::new() },
        traits: BTreeSet::new(),
        failed_builds: u32::from(n.is_multiple_of(50)),
        fence: None,
        fenced_at: None,
        drain: None,
        maintenance: None,
        findings: BTreeMap::new(),
        cloned_at: None,
        created_at: Timestamp(0),
        revision: Revision(n),
    }
}

fn vm(id: VmId, shape: u64) -> Vm {
    Vm {
        id,
        project: "default".into(),
        name: format!("vm-{id}"),
        spec: VmSpec {
            flavor: FlavorId(Uuid::from_u128(1)),
            flavor_name: "small".into(),
            size: Size { vcpus: 1, memory_mib: 1024 + shape * 2, disk_gib: 2 },
            image: ImageId(Uuid::from_u128(1)),
            kernel: None,
            cmdline: None,
            node: None,
            availability: Default::default(),
            policies: Default::default(),
            on_no_host: OnNoHost::Queue,
            scheduling: Scheduling::default(),
            extra_specs: BTreeMap::new(),
            image_properties: BTreeMap::new(),
            volumes: Vec::new(),
        },
        power: Power { want: WantPower::On, run: 1, stop: StopMode::Force },
        status: VmStatus::Build,
        task_state: Some(TaskState::Scheduling),
        fault: None,
        claim: None,
        observed: None,
        excluded: Vec::new(),
        refusals: Vec::new(),
        reserved: None,
        decision: None,
        waiting_since: Some(Timestamp(0)),
        recovery: Default::default(),
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        revision: Revision(1),
    }
}
