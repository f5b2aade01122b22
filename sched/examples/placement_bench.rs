//! How long a placement decision takes. Prints one JSON object a line, in the form `cargo xtask bench`
//! collects: `{name, unit, value, p50, p99, max, note}`. Run it with `--release`; `--quick` for fewer rounds.
#![allow(clippy::disallowed_methods, reason = "it measures time; the library does not")]

use std::collections::BTreeMap;
use std::time::Instant;

use holm_model::flavor::Size;
use holm_model::node::{HypervisorFacts, HypervisorKind, Node, NodeReport};
use holm_model::state::Leadership;
use holm_model::vm::{OnNoHost, Power, StopMode, TaskState, Vm, VmSpec, VmStatus, WantPower};
use holm_model::{
    BootId, FlavorId, ImageId, Incarnation, Inventory, NodeId, ResourceClass, Resources, Revision, State,
    Timestamp, VmId,
};
use holm_sched::controllers::Placement;
use holm_sched::{Controller, Facts};
use uuid::Uuid;

fn main() {
    let rounds = if std::env::args().any(|arg| arg == "--quick") { 20 } else { 200 };
    for hosts in [100, 1000] {
        for (label, vms, shapes) in
            [("one VM", 1, 1), ("batch of 100, one shape", 100, 1), ("batch of 100, 100 shapes", 100, 100)]
        {
            let state = cluster(hosts, vms, shapes);
            let mut times = measure(&state, vms, rounds);
            times.sort_by(f64::total_cmp);
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
            let line = serde_json::json!({
                "name": format!("placement decision, {hosts} hosts, {label}"),
                "unit": "us/VM",
                "value": at(0.5), "p50": at(0.5), "p99": at(0.99), "max": at(1.0),
                "note": format!("{rounds} decisions, default filters and weighers"),
            });
            println!("{line}");
        }
    }
}

fn measure(state: &State, vms: u64, rounds: usize) -> Vec<f64> {
    let controller = Placement::default();
    let facts = Facts::default();
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            let commands = controller.decide(state, &facts);
            let elapsed = start.elapsed().as_secs_f64() * 1e6;
            assert_eq!(commands.len(), 1, "all fit");
            elapsed / vms as f64
        })
        .collect()
}

/// Hosts of several sizes, each somewhat full, and a queue.
fn cluster(hosts: u64, vms: u64, shapes: u64) -> State {
    let incarnation = Incarnation(Uuid::from_u128(1));
    let leadership =
        Leadership { node: NodeId(1), term: 1, incarnation, revision: Revision(1), at: Timestamp(0) };
    let mut state = State { leadership: Some(leadership), ..State::default() };
    for n in 1..=hosts {
        state.nodes.insert(NodeId(n), node(n));
    }
    for n in 1..=vms {
        // Ids as random as real ones.
        let id = VmId(Uuid::from_u128(u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)));
        state.vms.insert(id, vm(id, n % shapes));
        state.waiting.insert(id);
    }
    state
}

fn node(n: u64) -> Node {
    let inventory =
        |total, ratio| Inventory { total, reserved: total / 20, allocation_ratio_thousandths: ratio };
    let (vcpus, memory_mib) = (16 + n % 4 * 16, 65_536 + n % 3 * 65_536);
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
                version: String::new(),
                reason: String::new(),
            },
            inventory: BTreeMap::from([
                (ResourceClass::Vcpu, inventory(vcpus, 4000)),
                (ResourceClass::MemoryMb, inventory(memory_mib, 1000)),
                (ResourceClass::DiskGb, inventory(1000, 1000)),
            ]),
            conditions: BTreeMap::new(),
        }),
        report_sequence: 1,
        past_boots: Vec::new(),
        allocated: Resources::from_iter([
            (ResourceClass::Vcpu, n * 7 % 13),
            (ResourceClass::MemoryMb, n * 997 % 30_000),
            (ResourceClass::DiskGb, n % 50),
        ]),
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
            on_no_host: OnNoHost::Queue,
        },
        power: Power { want: WantPower::On, run: 1, stop: StopMode::Force },
        status: VmStatus::Build,
        task_state: Some(TaskState::Scheduling),
        fault: None,
        claim: None,
        observed: None,
        excluded: Vec::new(),
        refusals: Vec::new(),
        waiting_since: Some(Timestamp(0)),
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        revision: Revision(1),
    }
}
