//! Fixed records for tests.

use std::collections::BTreeMap;

use holm_api::vm::{
    Availability, Fault, HostReason, ImageRef, Observed, ObservedState, OnNoHost, Power, TaskState, VmFlavor,
};
use holm_api::{
    Condition, Hypervisor, HypervisorKind, Inventory, Node, NodeRef, Role, Timestamp, Vm, VmStatus,
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
        requested_node: None,
        on_no_host: OnNoHost::Queue,
        availability: Availability::Pinned,
        power: Power::On,
        run: 1,
        fault: None,
        observed: None,
        excluded: vec![],
        refusals: vec![
            refusal("n1", 1, "Capacity", "MEMORY_MB: 528 wanted, 100 free of 4096"),
            refusal("n2", 2, "ComputeStatus", "the node is down"),
        ],
        waiting_since: Some(at("11:59:30")),
        build_deadline: Some(at("12:09:30")),
        created_at: at("11:59:30"),
        updated_at: at("11:59:30"),
        revision: 40,
    }
}

/// Runs on n1.
pub fn active() -> Vm {
    Vm {
        id: id(0x18),
        status: VmStatus::Active,
        task_state: None,
        node: Some("n1".into()),
        node_id: Some(1),
        node_up: Some(true),
        hypervisor: Some(real()),
        epoch: Some(41),
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
        conditions: BTreeMap::from([("DiskLow".into(), Condition { since: at("11:00:00"), message })]),
        ..node(3, "n3")
    }
}

pub fn node_ref(id: u64, name: &str) -> NodeRef {
    NodeRef { id, name: name.into() }
}
