//! Machines that fail: a sample of each command about them, and a snapshot of a cluster in trouble.

use std::collections::BTreeMap;

use holm_model::command::*;
use holm_model::flavor::Size;
use holm_model::image::ImageKind;
use holm_model::node::{DrainPinned, HypervisorFacts, HypervisorKind, NodeReport};
use holm_model::scheduling::Scheduling;
use holm_model::vm::{Availability, DiskLoss, ObservedState, OnNoHost, RestartPolicy, StopMode, TaskState};
use holm_model::*;

use super::{committed, entry, epoch, report, uuid, vm};

/// When machines fail, or are made to.
pub fn commands() -> Vec<Command> {
    let (leadership, node) = (Revision(40), NodeId(1));
    let drain = Some(DrainRequest { stop_timeout_s: 60, pinned: DrainPinned::Stop });
    vec![
        Command::FenceNode(FenceNode { leadership, node }),
        Command::UnfenceNode(UnfenceNode { node, boot_id: BootId(uuid(9)), fence: Revision(50), found: 1 }),
        Command::SetNodeDrain(SetNodeDrain { node, drain, expected: Some(Revision(3)) }),
        Command::SetNodeMaintenance(SetNodeMaintenance {
            node,
            on: true,
            reason: Some("new fan".into()),
            drain,
            expected: None,
        }),
        Command::SetClusterPolicy(SetClusterPolicy {
            lease_ttl_ms: Some(20_000),
            ..SetClusterPolicy::default()
        }),
        Command::SettleLeaseTtl(SettleLeaseTtl { leadership, policy: Revision(44) }),
        Command::SetFreeze(SetFreeze { for_ms: Some(1_800_000), reason: Some("new switch".into()) }),
        Command::EndFreeze(EndFreeze { leadership, freeze: Revision(45) }),
        Command::SetVmPolicies(SetVmPolicies {
            admitted: None,
            vm: vm(),
            availability: Some(Availability::Failover),
            disk_loss: Some(DiskLoss::Recreate),
            restart_policy: Some(RestartPolicy::OnFailure),
            start_order: Some(2),
            start_delay_s: Some(10),
            any_node: false,
            expected: None,
        }),
        Command::VacateVms(VacateVms {
            leadership,
            vms: vec![vm()],
            reason: "drain".into(),
            stop: StopMode::Graceful { timeout_s: 60 },
        }),
        Command::StopForDrain(StopForDrain { leadership, vms: vec![vm()] }),
        Command::RestartVm(RestartVm { leadership, vm: vm(), run: 2 }),
        Command::TaskOverdue(TaskOverdue { leadership, vm: vm(), task_state: TaskState::Spawning, run: 1 }),
        Command::EvacuateVm(EvacuateVm { vm: vm(), confirm_node_off: true, admitted: None, expected: None }),
        Command::ResetVmState(ResetVmState { vm: vm(), expected: None }),
        Command::SetClock(SetClock { leadership, by_ms: -3_600_000 }),
        Command::ShortenLease(ShortenLease { node, freeze: Revision(45) }),
        Command::MoveVms(MoveVms {
            moves: vec![Relocation { vm: vm(), epoch: epoch(), to: NodeId(2), gain: 0 }],
            planned: None,
            admitted: None,
            stop: StopMode::Graceful { timeout_s: 60 },
        }),
        Command::PreemptVms(PreemptVms {
            leadership,
            vm: vm(),
            node: NodeId(1),
            victims: vec![VmId(uuid(10))],
            stop: StopMode::Graceful { timeout_s: 30 },
        }),
    ]
}

/// A cluster in trouble: a node fenced, another being emptied, VMs that fail over, move and restart.
#[test]
fn a_snapshot_of_a_cluster_in_trouble_is_read_and_written_as_ever() {
    let mut state = State::default();
    for command in in_trouble() {
        let mut entry = entry(command);
        entry.proposal.key = None;
        let applied = apply(&mut state, &entry);
        assert!(matches!(applied.reply, Reply::Done(_)), "{:?}: {:?}", entry.proposal.command, applied.reply);
        invariant::check(&state).unwrap();
    }
    assert!(state.nodes[&NodeId(2)].fence.is_some() && state.nodes[&NodeId(1)].maintenance.is_some());
    assert!(state.freeze.is_some() && state.vms.values().any(|vm| vm.recovery.failing_over));
    let bytes = snapshot::encode(&state);
    let committed = committed("snapshot-2.mp", &bytes);
    assert_eq!(snapshot::decode(&committed).unwrap(), state);
    assert_eq!(bytes, committed);
}

/// A history of three nodes and three VMs in which every command is taken.
pub fn in_trouble() -> Vec<Command> {
    let node = |n: u64| AddNode {
        name: format!("node{n}"),
        peer_addr: format!("10.0.0.{n}:7461"),
        api_addr: format!("10.0.0.{n}:7460"),
    };
    let (flavor, image) = (FlavorId(uuid(4)), ImageId(uuid(5)));
    let mut history = vec![
        Command::InitCluster(InitCluster {
            cluster: ClusterId(uuid(2)),
            name: "ship".into(),
            first_node: node(1),
        }),
        Command::AddNode(node(2)),
        Command::AddNode(node(3)),
        Command::BeginLeadership(BeginLeadership {
            node: NodeId(1),
            term: 3,
            incarnation: Incarnation(uuid(3)),
        }),
        Command::CreateFlavor(CreateFlavor {
            id: flavor,
            name: "small".into(),
            size: Size { vcpus: 1, memory_mib: 64, disk_gib: 1 },
            extra_specs: BTreeMap::new(),
        }),
        Command::CreateImage(CreateImage {
            id: image,
            name: "guest".into(),
            kind: ImageKind::Kernel,
            size_bytes: 600,
            sha256: "ab".repeat(32),
            holder: NodeId(1),
            properties: BTreeMap::new(),
        }),
    ];
    let leadership = Revision(4);
    for n in 1..=3 {
        let of = |total| Inventory { allocation_ratio_thousandths: 4000, ..Inventory::of(total) };
        let inventory = BTreeMap::from([
            (ResourceClass::Vcpu, of(8)),
            (ResourceClass::MemoryMb, of(4096)),
            (ResourceClass::DiskGb, of(100)),
        ]);
        history.push(Command::ReportNode(ReportNode {
            node: NodeId(n),
            sequence: 77,
            peer_addr: node(n).peer_addr,
            api_addr: node(n).api_addr,
            report: NodeReport {
                hypervisor: HypervisorFacts {
                    kind: HypervisorKind::Simulated,
                    version: String::new(),
                    reason: "no /dev/kvm".into(),
                },
                inventory,
                conditions: BTreeMap::new(),
                ..report()
            },
        }));
        history.push(Command::SetNodeUp(SetNodeUp { leadership, node: NodeId(n), up: true }));
    }
    let policies = vm::VmPolicies {
        disk_loss: DiskLoss::Recreate,
        restart_policy: RestartPolicy::Always,
        start_order: 2,
        start_delay_s: 10,
    };
    let placed_at = Epoch(Revision(16));
    for (n, availability) in
        [(1, Availability::Failover), (2, Availability::Pinned), (3, Availability::Pinned)]
    {
        history.push(Command::CreateVm(CreateVm {
            admitted: None,
            id: VmId(uuid(n)),
            name: format!("vm{n}"),
            flavor,
            image,
            kernel: None,
            cmdline: None,
            node: None,
            availability,
            policies,
            on_no_host: OnNoHost::Queue,
            scheduling: Scheduling::default(),
            volumes: Vec::new(),
        }));
    }
    let placement = |n: u128, node| Placement { vm: VmId(uuid(n)), node: NodeId(node), choice: None };
    let ended = |n: u128, state| VmReport {
        vm: VmId(uuid(n)),
        epoch: placed_at,
        run: 1,
        state,
        armed_for: None,
        note: None,
    };
    let stop = StopMode::Graceful { timeout_s: 60 };
    let drain = Some(DrainRequest { stop_timeout_s: 60, pinned: DrainPinned::Stop });
    history.extend([
        Command::PlaceVms(PlaceVms {
            leadership,
            placements: vec![placement(1, 2), placement(2, 1), placement(3, 1)],
            atomic: false,
        }),
        Command::ReportVms(ReportVms {
            node: NodeId(1),
            boot_id: report().boot_id,
            sequence: 5,
            reports: vec![ended(2, ObservedState::Running), ended(3, ObservedState::Running)],
        }),
        Command::ReportVms(ReportVms {
            node: NodeId(1),
            boot_id: report().boot_id,
            sequence: 6,
            reports: vec![ended(3, ObservedState::Failed { reason: "it died".into() })],
        }),
        Command::FenceNode(FenceNode { leadership, node: NodeId(2) }),
        Command::SetNodeMaintenance(SetNodeMaintenance {
            node: NodeId(1),
            on: true,
            reason: Some("new fan".into()),
            drain,
            expected: None,
        }),
        Command::VacateVms(VacateVms { leadership, vms: vec![VmId(uuid(2))], reason: "drain".into(), stop }),
        Command::SetClusterPolicy(SetClusterPolicy {
            lease_ttl_ms: Some(20_000),
            ..SetClusterPolicy::default()
        }),
        Command::SetFreeze(SetFreeze { for_ms: Some(1_800_000), reason: Some("new switch".into()) }),
    ]);
    history
}
