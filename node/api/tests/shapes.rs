//! Every shape of the API, as it is on the wire. A changed snapshot is a changed API.

use std::collections::BTreeMap;

use holm_api::*;
use insta::assert_json_snapshot;
use serde_json::json;
use uuid::Uuid;

fn advice() -> Advice {
    let fix = "open it again: `holm node uncordon n2`".to_owned();
    Advice { by: "ComputeStatus".to_owned(), nodes: vec!["n2".to_owned()], fix }
}

fn id(n: u128) -> Uuid {
    Uuid::from_u128(0x01a2_2c88_f0f8_7341_ad8a_0000_0000_0000 + n)
}

fn at(second: u32) -> Timestamp {
    Timestamp(format!("2026-11-30T12:00:{second:02}.000Z"))
}

fn hypervisor() -> Hypervisor {
    Hypervisor {
        kind: HypervisorKind::Simulated,
        version: String::new(),
        reason: "/dev/kvm is missing".to_owned(),
    }
}

fn vm() -> Vm {
    let host = |by: &str, message: &str| vm::HostReason {
        node: "n2".to_owned(),
        node_id: 2,
        by: by.to_owned(),
        message: message.to_owned(),
    };
    Vm {
        id: id(1),
        name: "web".to_owned(),
        project: "default".to_owned(),
        status: VmStatus::Build,
        task_state: Some(vm::TaskState::Spawning),
        node: Some("n1".to_owned()),
        node_id: Some(1),
        node_up: Some(true),
        hypervisor: Some(hypervisor()),
        epoch: Some(7),
        flavor: vm::VmFlavor { id: id(2), name: "small".to_owned(), vcpus: 1, memory_mib: 64, disk_gib: 0 },
        image: vm::ImageRef { id: id(3), name: "guest".to_owned() },
        kernel: None,
        cmdline: Some("console=ttyS0".to_owned()),
        volumes: vec!["data".to_owned()],
        requested_node: None,
        on_no_host: vm::OnNoHost::Queue,
        availability: Availability::Failover,
        availability_in_force: Some(Availability::Pinned),
        disk_loss: DiskLoss::Recreate,
        restart_policy: RestartPolicy::OnFailure,
        start_order: -3,
        start_delay_s: 30,
        recovery: vm::Recovery {
            task_since: Some(at(4)),
            overdue: false,
            task_deadline: Some(at(59)),
            failing_over: true,
            lost_host: None,
            restarts: 2,
            next_restart_at: Some(at(9)),
            leaving: Some(vm::Leaving { since: at(5), reason: "drain of n1".to_owned() }),
            stopped_for_drain_of: Some("n1".to_owned()),
            moved_to: None,
        },
        scheduling: Scheduling {
            availability_zone: Some("rack-a".to_owned()),
            node_selector: vec!["disk in (nvme,ssd)".parse().unwrap(), "gpu".parse().unwrap()],
            tolerations: vec!["gpu=yes:NoSchedule".parse().unwrap(), "*".parse().unwrap()],
            group: Some("web".to_owned()),
            different_host: vec!["db".to_owned()],
            ..Scheduling::default()
        },
        decision: Some(decision()),
        power: vm::Power::On,
        run: 1,
        fault: Some(vm::Fault {
            message: "out of memory".to_owned(),
            node: Some("n2".to_owned()),
            at: at(3),
        }),
        observed: Some(vm::Observed {
            state: vm::ObservedState::Progress,
            step: Some("fetching image 40 %".to_owned()),
            reason: None,
            run: 1,
            at: at(4),
        }),
        excluded: vec![host("start", "out of memory")],
        refusals: vec![host("Capacity", "MEMORY_MB: 80 wanted, 12 free of 900")],
        advice: vec![advice()],
        allocations: [("VCPU".to_owned(), 1), ("MEMORY_MB".to_owned(), 80)].into(),
        reserved_node: None,
        cpus: vec![4, 5],
        pci_devices: vec!["0000:65:00.0".into()],
        waiting_since: Some(at(1)),
        build_deadline: Some(at(59)),
        created_at: at(0),
        updated_at: at(4),
        revision: 9,
        warnings: vec![],
    }
}

fn decision() -> Decision {
    let score = |node: &str, node_id, score| Score { node: node.to_owned(), node_id, score };
    Decision {
        at: at(2),
        revision: 7,
        seen: 6,
        policy: 1,
        chosen: Some("n1".to_owned()),
        withheld: vec!["c".into()],
        evicted: vec!["batch".into()],
        candidates: 2,
        scores: vec![score("n1", 1, 2.5), score("n3", 3, 1.25)],
    }
}

fn over() -> InventoryOverride {
    InventoryOverride { allocation_ratio: Some(1.5), max_unit: Some(2), ..InventoryOverride::default() }
}

fn node() -> Node {
    let vcpus = Inventory {
        total: 4,
        reserved: 0,
        allocation_ratio: 4.0,
        capacity: 16,
        used: 1,
        min_unit: 1,
        max_unit: Some(2),
        step_size: 1,
    };
    let disk = Condition { since: at(2), message: "/var/lib/holm is 96 % full".to_owned() };
    Node {
        id: 1,
        name: "n1".to_owned(),
        peer_addr: "10.0.0.1:7461".to_owned(),
        api_addr: "10.0.0.1:7460".to_owned(),
        role: Role::Leader,
        up: true,
        up_changed_at: at(1),
        enabled: false,
        disabled_reason: Some("disk".to_owned()),
        version: Some("0.1.0".to_owned()),
        hypervisor: Some(hypervisor()),
        inventory: BTreeMap::from([("VCPU".to_owned(), vcpus)]),
        inventory_overrides: BTreeMap::from([("VCPU".to_owned(), over())]),
        availability_zone: "rack-a".to_owned(),
        aggregates: vec!["rack-a".to_owned()],
        labels: BTreeMap::from([("disk".to_owned(), "nvme".to_owned())]),
        taints: vec!["gpu=yes:NoSchedule".parse().unwrap()],
        traits: vec!["CUSTOM_QUIET".to_owned()],
        reported_traits: vec!["HW_CPU_X86_AVX2".to_owned()],
        capabilities: BTreeMap::from([("arch".to_owned(), "x86_64".to_owned())]),
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
        conditions: BTreeMap::from([("DiskPressure".to_owned(), disk)]),
        fence: Some(Fence {
            since: at(7),
            lost: vec![LostVm { id: id(1), name: Some("web".to_owned()), epoch: 7 }],
        }),
        drain: Some(NodeDrain {
            since: at(8),
            stop_timeout_s: 60,
            pinned: DrainPinned::Stop,
            done: false,
            left_failover: vec!["web".to_owned()],
            left_pinned: vec![],
        }),
        maintenance: Some(Maintenance { since: at(8), reason: Some("new disk".to_owned()) }),
        orphans: vec![Orphan { id: id(9), message: "of another cluster".to_owned() }],
        vms: 1,
        created_at: at(0),
        revision: 5,
    }
}

fn freeze() -> Freeze {
    Freeze { since: at(1), until: at(31), reason: None, over: false, revision: 8 }
}

#[test]
fn vm_and_its_list() {
    assert_json_snapshot!(List { items: vec![vm()], next: Some(id(1).to_string()), revision: 12 });
}

#[test]
fn a_node() {
    assert_json_snapshot!(node());
}

#[test]
fn flavor_and_image() {
    let flavor = Flavor {
        id: id(2),
        name: "small".to_owned(),
        vcpus: 1,
        memory_mib: 64,
        disk_gib: 0,
        extra_specs: BTreeMap::from([("hw:cpu_policy".to_owned(), "dedicated".to_owned())]),
        created_at: at(0),
        revision: 2,
    };
    let image = Image {
        id: id(3),
        name: "guest".to_owned(),
        project: "default".to_owned(),
        kind: ImageKind::RawDisk,
        size_bytes: 512,
        sha256: "0".repeat(64),
        properties: BTreeMap::from([("hw_architecture".to_owned(), "x86_64".to_owned())]),
        holders: vec![NodeRef { id: 1, name: "n1".to_owned() }],
        created_at: at(0),
        revision: 3,
    };
    assert_json_snapshot!((flavor, image));
}

#[test]
fn cluster_checkpoint_and_health() {
    let n1 = NodeRef { id: 1, name: "n1".to_owned() };
    let member = Member {
        id: 1,
        name: "n1".to_owned(),
        role: Role::Leader,
        up: true,
        peer_addr: "10.0.0.1:7461".to_owned(),
        api_addr: "10.0.0.1:7460".to_owned(),
        silent_ms: Some(12),
        matched_index: Some(40),
    };
    let cluster = Cluster {
        id: id(9),
        name: "edge".to_owned(),
        created_at: at(0),
        version: 1,
        leader: Some(n1.clone()),
        term: 3,
        members: vec![member],
        node: n1,
        applied_index: 40,
        last_log_index: 41,
        snapshot_index: 0,
        freeze: Some(freeze()),
        revision: 38,
    };
    let checkpoint = Checkpoint {
        node: "n1".to_owned(),
        node_id: 1,
        log_index: 40,
        revision: 38,
        state_hash: "0".repeat(64),
    };
    let health = Health {
        live: true,
        ready: false,
        reason: Some("no leader".to_owned()),
        node: "n1".to_owned(),
        node_id: 1,
        leader: None,
        version: "0.1.0".to_owned(),
        uptime_s: 5,
        revision: 38,
    };
    assert_json_snapshot!((cluster, checkpoint, health));
}

#[test]
fn event_explanation_and_delete() {
    let event = Event {
        revision: 4,
        n: 0,
        at: at(0),
        kind: EventKind::Vm,
        id: id(1).to_string(),
        name: "web".to_owned(),
        what: "placed".to_owned(),
        message: "on n1".to_owned(),
        actor: "controller/placement".to_owned(),
    };
    let fits = HostVerdict {
        node: "n1".to_owned(),
        node_id: 1,
        verdict: Verdict::Fits,
        by: None,
        message: None,
        also: vec![],
        score: Some(1.5),
        weights: vec![Weight {
            weigher: "Ram".to_owned(),
            score: 1.5,
            raw: 4096,
            normalised: 0.75,
            multiplier: 2.0,
        }],
    };
    let refuses = HostVerdict {
        node: "n2".to_owned(),
        node_id: 2,
        verdict: Verdict::Refuses,
        by: Some("ComputeStatus".to_owned()),
        message: Some("the node is down".to_owned()),
        also: vec![Refusal {
            by: "Taints".to_owned(),
            message: "taint `gpu:NoSchedule`: not tolerated".to_owned(),
        }],
        score: None,
        weights: vec![],
    };
    let explanation = Explanation {
        vm: "web".to_owned(),
        vm_id: id(1),
        status: VmStatus::Build,
        task_state: Some(vm::TaskState::Scheduling),
        node: None,
        summary: "waiting; 1 of 2 nodes fit now, n1 best".to_owned(),
        hosts: vec![fits, refuses],
        decision: None,
        eviction: Some(Eviction { node: "n1".to_owned(), victims: vec!["batch".to_owned()] }),
        advice: vec![advice()],
        placements: vec![Planned { vm: "web-1".to_owned(), node: Some("n1".to_owned()), why: None }],
        refused: Vec::new(),
        warnings: Vec::new(),
        dry_run: true,
    };
    let deleted = Deleted { id: id(1).to_string(), name: Some("web".to_owned()), revision: 12 };
    assert_json_snapshot!((event, explanation, deleted));
}

#[test]
fn a_problem() {
    let code = Code::NameTaken;
    assert_json_snapshot!(Problem {
        kind: format!("urn:holm:problem:{code}"),
        title: code.title().to_owned(),
        status: code.status(),
        code,
        detail: "the VM name `web` is taken".to_owned(),
        field: Some("name".to_owned()),
        request_id: id(5).to_string(),
        hint: None,
        quota: None,
    });
}

#[test]
fn a_problem_about_a_quota_has_the_numbers() {
    let code = Code::QuotaExceeded;
    assert_json_snapshot!(Problem {
        kind: format!("urn:holm:problem:{code}"),
        title: code.title().to_owned(),
        status: code.status(),
        code,
        detail: "the quota of project `default` would be exceeded".to_owned(),
        field: None,
        request_id: id(5).to_string(),
        hint: None,
        quota: Some(QuotaExceeded {
            project: "default".to_owned(),
            class: "VCPU".to_owned(),
            wanted: 2,
            used: 7,
            limit: 8,
        }),
    });
}

#[test]
fn every_code_and_its_status() {
    let codes: BTreeMap<&str, u16> = Code::ALL.iter().map(|code| (code.as_str(), code.status())).collect();
    assert_eq!(codes.len(), Code::ALL.len(), "codes are distinct");
    assert_json_snapshot!(codes);
}

#[test]
fn aggregates_groups_policy_quota_and_questions() {
    let n1 = NodeRef { id: 1, name: "n1".to_owned() };
    let aggregate = Aggregate {
        id: id(6),
        name: "rack-a".to_owned(),
        nodes: vec![n1.clone()],
        availability_zone: Some("rack-a".to_owned()),
        metadata: BTreeMap::from([("availability_zone".to_owned(), "rack-a".to_owned())]),
        inventory: BTreeMap::from([("VCPU".to_owned(), over())]),
        created_at: at(0),
        revision: 3,
    };
    let zone = AvailabilityZone {
        name: "rack-a".to_owned(),
        available: true,
        nodes: vec![n1],
        aggregates: vec!["rack-a".to_owned()],
        vms: 2,
    };
    let member = GroupMember { id: id(1), name: "web".to_owned(), node: Some("n1".to_owned()) };
    let group = ServerGroup {
        id: id(7),
        name: "web".to_owned(),
        project: "default".to_owned(),
        policy: GroupPolicy::AntiAffinity,
        max_server_per_host: Some(2),
        members: vec![member],
        created_at: at(0),
        revision: 4,
    };
    let policy = SchedulerPolicy {
        filters: vec!["ComputeStatus".to_owned()],
        weighers: BTreeMap::from([("Ram".to_owned(), -1.5)]),
        max_instances_per_host: 50,
        max_io_ops_per_host: 8,
        isolated_images: vec![],
        isolated_nodes: vec![],
        restrict_isolated_hosts_to_isolated_images: true,
        reserve_after_s: 30,
        build_timeout_s: 600,
        n_plus_one: NPlusOne::Warn,
        preemption: false,
        warnings: vec![],
        known_filters: BTreeMap::from([("ComputeStatus".to_owned(), true)]),
        known_weighers: BTreeMap::from([("Ram".to_owned(), 1.0)]),
        required_filters: vec!["ComputeStatus".to_owned(), "Reserved".to_owned()],
        always_filters: vec!["Reserved".to_owned()],
        revision: 5,
    };
    let used = |used, limit| QuotaClass { used, limit };
    let classes = [("VCPU".to_owned(), used(2, Some(8))), ("VMS".to_owned(), used(1, None))];
    let quota = Quota { project: "default".to_owned(), classes: BTreeMap::from(classes) };
    let moved = Move {
        vm: "web".to_owned(),
        vm_id: id(1),
        from: "n1".to_owned(),
        to: Some("n2".to_owned()),
        by_itself: true,
        stays: None,
        refusals: vec![],
        refused: BTreeMap::new(),
    };
    let what_if = WhatIf {
        lose: vec!["n1".to_owned()],
        drain: vec![],
        summary: "all 1 VMs would fit elsewhere".to_owned(),
        hindrances: vec![],
        vms: vec![moved],
        waiting: vec![Planned { vm: "late".to_owned(), node: None, why: None }],
        advice: vec![],
        fits: 1,
        stranded: 0,
        revision: 9,
    };
    assert_json_snapshot!((aggregate, zone, group, policy, quota, what_if));
}

#[test]
fn a_client_reads_what_a_newer_node_adds() {
    let mut newer = serde_json::to_value(vm()).unwrap();
    newer["colour"] = json!("green");
    assert_eq!(serde_json::from_value::<Vm>(newer).unwrap(), vm());
    assert_eq!(serde_json::from_value::<Code>(json!("out_of_coffee")).unwrap(), Code::Other);
}
