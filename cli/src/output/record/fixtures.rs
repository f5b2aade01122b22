//! Fixed records for tests.

use std::collections::BTreeMap;

use holm_api::vm::{
    Availability, DiskLoss, Fault, HostReason, ImageRef, Leaving, Observed, ObservedState, OnNoHost, Power,
    Recovery, RestartPolicy, TaskState, VmFlavor,
};
use holm_api::{
    Advice, Bounded, ClusterPolicy, Condition, Decision, DrainPinned, DrainProgress, Fence, Freeze,
    Hypervisor, HypervisorKind, Inventory, InventoryOverride, LeftVm, LostVm, Maintenance, NextForVm, Node,
    NodeDrain, NodeRef, Orphan, Role, SchedulerPolicy, Scheduling, Score, Timestamp, Vm, VmStatus,
};
use uuid::Uuid;

use crate::output::text::Now;

/// 2026-11-30T12:00:00Z
pub const NOW: Now = Now(1_796_040_000_000);

pub fn at(clock: &str) -> Timestamp {
    Timestamp(format!("2026-11-30T{clock}.000Z"))
}

pub fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

pub fn real() -> Hypervisor {
    Hypervisor { kind: HypervisorKind::CloudHypervisor, version: "53.0".into(), reason: String::new() }
}

pub fn simulated() -> Hypervisor {
    let reason = "/dev/kvm is missing".into();
    Hypervisor { kind: HypervisorKind::Simulated, version: String::new(), reason }
}

/// What helps [`building`].
pub fn advice() -> Vec<Advice> {
    let one = |by: &str, nodes: &[&str], fix: &str| Advice {
        by: by.into(),
        nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        fix: fix.into(),
    };
    vec![
        one(
            "Capacity",
            &["n1"],
            "move or delete VMs (`holm vm list --node n1`), take a smaller flavor, or add a node",
        ),
        one("ComputeStatus", &["n2", "n3", "n4", "n5", "n6"], "open it again: `holm node uncordon NODE`"),
    ]
}

/// Waits for a host.
pub fn building() -> Vm {
    let refusal = |node: &str, node_id, by: &str, message: &str| HostReason {
        node: node.into(),
        node_id,
        by: by.into(),
        message: message.into(),
    };
    Vm {
        id: id(0x17),
        name: "web".into(),
        project: "default".into(),
        status: VmStatus::Build,
        task_state: Some(TaskState::Scheduling),
        node: None,
        node_id: None,
        node_up: None,
        hypervisor: None,
        epoch: None,
        flavor: VmFlavor { id: id(2), name: "small".into(), vcpus: 2, memory_mib: 512, disk_gib: 4 },
        image: ImageRef { id: id(3), name: "debian-13".into() },
        kernel: None,
        cmdline: None,
        volumes: vec!["data".into()],
        requested_node: None,
        on_no_host: OnNoHost::Queue,
        availability: Availability::Pinned,
        availability_in_force: None,
        disk_loss: DiskLoss::Refuse,
        restart_policy: RestartPolicy::Never,
        start_order: 0,
        start_delay_s: 0,
        recovery: Recovery { task_since: Some(at("11:59:30")), ..Recovery::default() },
        scheduling: Scheduling {
            availability_zone: Some("rack-a".into()),
            node_selector: vec!["disk in (nvme,ssd)".parse().unwrap(), "!slow".parse().unwrap()],
            tolerations: vec!["gpu=yes:NoSchedule".parse().unwrap()],
            group: Some("web".into()),
            different_host: vec!["db".into()],
            priority: 5,
            ..Scheduling::default()
        },
        decision: None,
        power: Power::On,
        run: 1,
        fault: None,
        observed: None,
        excluded: vec![],
        refusals: vec![
            refusal("n1", 1, "Capacity", "MEMORY_MB: 528 wanted, 100 free of 4096"),
            refusal("n2", 2, "ComputeStatus", "the node is down"),
        ],
        advice: advice(),
        allocations: BTreeMap::new(),
        reserved_node: None,
        cpus: vec![4, 5],
        pci_devices: vec!["0000:65:00.0".into()],
        waiting_since: Some(at("11:59:30")),
        build_deadline: Some(at("12:09:30")),
        created_at: at("11:59:30"),
        updated_at: at("11:59:30"),
        revision: 40,
        warnings: vec![],
    }
}

/// Runs on n1.
pub fn active() -> Vm {
    Vm {
        allocations: [("MEMORY_MB".to_owned(), 528), ("VCPU".to_owned(), 2)].into(),
        id: id(0x18),
        scheduling: Scheduling::default(),
        decision: Some(decision()),
        status: VmStatus::Active,
        task_state: None,
        node: Some("n1".into()),
        node_id: Some(1),
        node_up: Some(true),
        hypervisor: Some(real()),
        epoch: Some(41),
        availability_in_force: Some(Availability::Pinned),
        recovery: Recovery::default(),
        observed: Some(Observed {
            state: ObservedState::Running,
            step: None,
            reason: None,
            run: 1,
            at: at("11:59:40"),
        }),
        refusals: vec![],
        waiting_since: None,
        build_deadline: None,
        updated_at: at("11:59:40"),
        revision: 44,
        ..building()
    }
}

/// Was running on n3, a simulated hypervisor, when that was last heard from.
pub fn unreachable_and_simulated() -> Vm {
    Vm {
        id: id(0x19),
        name: "db".into(),
        node: Some("n3".into()),
        node_id: Some(3),
        node_up: Some(false),
        hypervisor: Some(simulated()),
        created_at: at("08:40:00"),
        ..active()
    }
}

/// Failed on every host.
pub fn failed() -> Vm {
    let message = "guest kernel panicked: no init".to_owned();
    Vm {
        id: id(0x20),
        name: "bad".into(),
        status: VmStatus::Error,
        task_state: None,
        fault: Some(Fault { message, node: Some("n1".into()), at: at("11:59:50") }),
        excluded: vec![HostReason {
            node: "n1".into(),
            node_id: 1,
            by: "build".into(),
            message: "cannot copy the disk: no space left".into(),
        }],
        refusals: vec![],
        waiting_since: None,
        build_deadline: None,
        ..building()
    }
}

pub fn node(n: u64, name: &str) -> Node {
    let inventory = |total, reserved, allocation_ratio, capacity, used| Inventory {
        total,
        reserved,
        allocation_ratio,
        capacity,
        used,
        min_unit: 1,
        max_unit: None,
        step_size: 1,
    };
    Node {
        id: n,
        name: name.into(),
        peer_addr: format!("10.0.0.{n}:7461"),
        api_addr: format!("10.0.0.{n}:7460"),
        role: if n == 1 { Role::Leader } else { Role::Voter },
        up: true,
        up_changed_at: at("08:00:00"),
        enabled: true,
        disabled_reason: None,
        version: Some("0.1.0".into()),
        hypervisor: Some(real()),
        inventory: BTreeMap::from([
            ("VCPU".into(), inventory(8, 0, 4.0, 32, 2)),
            ("MEMORY_MB".into(), inventory(16_384, 1024, 1.0, 15_360, 528)),
            ("DISK_GB".into(), inventory(500, 10, 1.0, 490, 4)),
        ]),
        inventory_overrides: BTreeMap::new(),
        availability_zone: "default".into(),
        aggregates: vec![],
        labels: BTreeMap::new(),
        taints: vec![],
        traits: vec![],
        reported_traits: vec!["HW_CPU_X86_AVX2".into()],
        capabilities: BTreeMap::from([("arch".into(), "x86_64".into())]),
        dedicated_cpus: [(4, 0), (5, 0)].into(),
        pci_devices: [(
            "0000:65:00.0".to_owned(),
            holm_api::PciDevice {
                alias: "gpu".into(),
                vendor: "10de".into(),
                product: "1eb8".into(),
                numa_node: Some(0),
                vm: Some("web".into()),
            },
        )]
        .into(),
        load: Some(0.25),
        failed_builds: 0,
        fence: None,
        drain: None,
        maintenance: None,
        orphans: vec![],
        conditions: BTreeMap::new(),
        vms: 1,
        created_at: at("08:00:00"),
        revision: 12,
    }
}

/// Down, cordoned, full of trouble, and simulating.
pub fn troubled_node() -> Node {
    let message = "2 GiB left for the log".into();
    Node {
        up: false,
        up_changed_at: at("11:58:00"),
        enabled: false,
        disabled_reason: Some("disk replaced on Friday".into()),
        hypervisor: Some(simulated()),
        inventory_overrides: BTreeMap::from([("CUSTOM_GPU".into(), over())]),
        availability_zone: "rack-a".into(),
        aggregates: vec!["rack-a".into(), "gpus".into()],
        labels: BTreeMap::from([("disk".into(), "nvme".into())]),
        taints: vec!["gpu=yes:NoSchedule".parse().unwrap()],
        traits: vec!["CUSTOM_QUIET".into()],
        failed_builds: 2,
        conditions: BTreeMap::from([("DiskLow".into(), Condition { since: at("11:00:00"), message })]),
        ..node(3, "n3")
    }
}

pub fn decision() -> Decision {
    let score = |node: &str, node_id, score| Score { node: node.into(), node_id, score };
    Decision {
        at: at("11:59:31"),
        revision: 41,
        seen: 40,
        policy: 1,
        chosen: Some("n1".into()),
        withheld: vec!["n2".into()],
        evicted: vec!["batch".into()],
        candidates: 2,
        scores: vec![score("n1", 1, 2.5), score("n3", 3, 1.25)],
    }
}

pub fn over() -> InventoryOverride {
    InventoryOverride { total: Some(2), allocation_ratio: Some(1.5), ..InventoryOverride::default() }
}

pub fn policy() -> SchedulerPolicy {
    let filters = ["ComputeStatus", "Taints", "Capacity"].map(str::to_owned);
    let known = filters.clone().map(|name| (name, true)).into_iter().chain([("NumInstances".into(), false)]);
    SchedulerPolicy {
        filters: filters.to_vec(),
        weighers: [("Ram".to_owned(), 1.0), ("Cpu".to_owned(), -0.5)].into(),
        max_instances_per_host: 50,
        max_io_ops_per_host: 8,
        isolated_images: vec![],
        isolated_nodes: vec!["n3".into()],
        restrict_isolated_hosts_to_isolated_images: true,
        reserve_after_s: 30,
        build_timeout_s: 600,
        n_plus_one: holm_api::NPlusOne::Warn,
        preemption: false,
        known_filters: known.collect(),
        known_weighers: [("Ram".to_owned(), 1.0), ("Cpu".to_owned(), 1.0), ("Load".to_owned(), 0.0)].into(),
        warnings: vec!["N+1: without node `n1`, 1 of its 3 failover VMs would fit nowhere".into()],
        required_filters: vec!["ComputeStatus".into(), "Capacity".into(), "PciDevices".into()],
        always_filters: vec!["PciDevices".into()],
        revision: 1,
    }
}

pub fn node_ref(id: u64, name: &str) -> NodeRef {
    NodeRef { id, name: name.into() }
}

/// Lost its node, and fits on no other.
pub fn failing_over() -> Vm {
    Vm {
        availability: Availability::Failover,
        disk_loss: DiskLoss::Recreate,
        recovery: Recovery {
            failing_over: true,
            lost_host: Some("its node `n1` did not answer and was fenced".into()),
            ..building().recovery
        },
        build_deadline: None,
        fault: Some(Fault {
            message: "its node `n2` did not answer and was fenced".into(),
            node: Some("n2".into()),
            at: at("11:59:30"),
        }),
        ..building()
    }
}

/// Leaves n1, which is being drained.
pub fn leaving() -> Vm {
    Vm {
        task_state: Some(TaskState::Moving),
        availability: Availability::Failover,
        availability_in_force: Some(Availability::Failover),
        disk_loss: DiskLoss::Recreate,
        recovery: Recovery {
            task_since: Some(at("11:59:55")),
            task_deadline: Some(at("12:10:55")),
            leaving: Some(Leaving { since: at("11:59:55"), reason: "drain of n1".into() }),
            ..Recovery::default()
        },
        ..active()
    }
}

/// Its VMM failed for the second time; asked to fail over, not yet bound to a lease.
pub fn restarting() -> Vm {
    Vm {
        status: VmStatus::Error,
        task_state: Some(TaskState::Restarting),
        availability: Availability::Failover,
        disk_loss: DiskLoss::Recreate,
        restart_policy: RestartPolicy::OnFailure,
        start_order: 7,
        start_delay_s: 30,
        recovery: Recovery {
            task_since: Some(at("11:59:58")),
            restarts: 2,
            next_restart_at: Some(at("12:00:02")),
            ..Recovery::default()
        },
        ..active()
    }
}

pub fn fence() -> Fence {
    let lost = |n, name: Option<&str>| LostVm { id: id(n), name: name.map(Into::into), epoch: 41 };
    Fence { since: at("11:58:30"), lost: vec![lost(0x17, Some("web")), lost(0x21, None)] }
}

/// Being emptied for work on it, and with something on it that nobody knows.
pub fn drained_node() -> Node {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Node {
        enabled: false,
        disabled_reason: Some("in maintenance: new disk".into()),
        drain: Some(NodeDrain {
            since: at("11:59:00"),
            stop_timeout_s: 60,
            pinned: DrainPinned::Stop,
            done: false,
            left_failover: names(&["web-1", "web-2"]),
            left_pinned: names(&["db"]),
        }),
        maintenance: Some(Maintenance { since: at("11:59:00"), reason: Some("new disk".into()) }),
        orphans: vec![Orphan { id: id(0x33), message: "of another cluster, running".into() }],
        ..node(2, "n2")
    }
}

pub fn drain() -> DrainProgress {
    let left = |name: &str, availability, next, to: Option<&str>| LeftVm {
        name: name.into(),
        id: id(0x17),
        availability,
        next,
        to: to.map(Into::into),
        refusals: if next == NextForVm::Stuck { building().refusals } else { vec![] },
    };
    use Availability::{Failover, Pinned};
    DrainProgress {
        node: "n1".into(),
        node_id: 1,
        node_up: true,
        since: Some(at("11:59:00")),
        maintenance: false,
        stop_timeout_s: 60,
        pinned: DrainPinned::Stop,
        done: false,
        left: vec![
            left("web-1", Failover, NextForVm::Leaving, None),
            left("web-2", Failover, NextForVm::Moves, Some("n2")),
            left("web-3", Failover, NextForVm::Stuck, None),
            left("db", Pinned, NextForVm::Stopping, None),
            left("dns", Pinned, NextForVm::Stops, None),
        ],
        dry_run: false,
        revision: 90,
    }
}

pub fn cluster_policy() -> ClusterPolicy {
    let bounded = |value, least, most| Bounded { value, least, most };
    ClusterPolicy {
        lease_ttl_ms: bounded(15_000, 8_400, 600_000),
        margin_ms: bounded(5_000, 2_000, 120_000),
        autostart_wait_ms: bounded(60_000, 0, 3_600_000),
        fence_after_ms: 20_000,
        fences_at_once: 1,
        failover_possible: true,
        revision: 0,
    }
}

pub fn freeze() -> Freeze {
    Freeze {
        since: at("11:48:00"),
        until: at("12:18:00"),
        reason: Some("new switch".into()),
        over: false,
        revision: 70,
    }
}
