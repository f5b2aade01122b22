//! What came later, all of it said: samples in which the fields are set that those of the first versions leave out, and a
//! snapshot of records that have everything.

use std::collections::{BTreeMap, BTreeSet};

use holm_model::cluster_policy::Freeze;
use holm_model::command::*;
use holm_model::parts::{Offer, Parts, PciDevice};
use holm_model::policy::{NPlusOne, SchedulerPolicy};
use holm_model::resources::{InventoryField, InventoryOverride};
use holm_model::scheduling::{Effect, Scheduling, Toleration};
use holm_model::vm::{
    Availability, Decision, DiskLoss, Fault, HostReason, ObservedState, Recovery, Reservation, RestartPolicy,
    Score, StopMode, Vacate, VmPolicies, WantPower,
};
use holm_model::*;

use super::{committed, entry, epoch, report, steered, uuid, vm};

/// Every field of an entry that can be absent, by the name of its file.
fn entries() -> Vec<(&'static str, Command)> {
    let (leadership, node, expected, admitted) =
        (Revision(40), NodeId(1), Some(Revision(12)), Some(Revision(39)));
    let aggregate = AggregateId(uuid(7));
    let group = GroupId(uuid(8));
    let force = StopMode::Force;
    let choice = Choice {
        seen: Revision(39),
        withheld: BTreeSet::from([NodeId(3)]),
        candidates: 2,
        scores: vec![Score { node, score_millionths: -1_500_000 }],
        policy: Some(Revision(7)),
    };
    let scheduling = Scheduling {
        tolerations: vec![Toleration {
            key: Some("gpu".into()),
            value: Some("yes".into()),
            effect: Some(Effect::PreferNoSchedule),
        }],
        preemptible: true,
        ..steered(group).scheduling
    };
    let create = CreateVm {
        kernel: Some(ImageId(uuid(6))),
        cmdline: Some("console=ttyS0".into()),
        node: Some(node),
        policies: policies(),
        scheduling,
        admitted,
        volumes: vec![VolumeId(uuid(21))],
        ..steered(group)
    };
    let taken_back = InventoryOverride {
        taken_back: BTreeSet::from([InventoryField::Total, InventoryField::AllocationRatio]),
        ..InventoryOverride::default()
    };
    vec![
        ("CreateVm-full", Command::CreateVm(create)),
        (
            "PlaceVms-full",
            Command::PlaceVms(PlaceVms {
                leadership,
                placements: vec![Placement { vm: vm(), node, choice: Some(choice.clone()) }],
                atomic: false,
            }),
        ),
        (
            "NoHost-full",
            Command::NoHost(NoHost {
                leadership,
                vm: vm(),
                refusals: Vec::new(),
                give_up: true,
                counts: BTreeMap::from([("Capacity".into(), 3)]),
                reserve: Some(node),
                retry: true,
                choice: Some(choice),
                batch: Some(BatchFit { fit: 2, of: 5 }),
                also: vec![VmId(uuid(12))],
            }),
        ),
        (
            "SetVmPower-full",
            Command::SetVmPower(SetVmPower {
                vm: vm(),
                want: WantPower::On,
                reboot: true,
                stop: force,
                admitted,
                expected,
            }),
        ),
        (
            "SetVmPolicies-full",
            Command::SetVmPolicies(SetVmPolicies {
                vm: vm(),
                availability: Some(Availability::Failover),
                disk_loss: Some(DiskLoss::Recreate),
                restart_policy: Some(RestartPolicy::OnFailure),
                start_order: Some(-1),
                start_delay_s: Some(5),
                any_node: true,
                admitted,
                expected,
            }),
        ),
        (
            "MoveVms-full",
            Command::MoveVms(MoveVms {
                moves: vec![Relocation { vm: vm(), epoch: epoch(), to: NodeId(2), gain: 12_500 }],
                stop: force,
                planned: Some(4),
                admitted,
            }),
        ),
        (
            "EvacuateVm-full",
            Command::EvacuateVm(EvacuateVm { vm: vm(), confirm_node_off: true, admitted, expected }),
        ),
        ("ResetVmState-full", Command::ResetVmState(ResetVmState { vm: vm(), expected })),
        ("DeleteVm-full", Command::DeleteVm(DeleteVm { vm: vm(), expected })),
        ("DeleteFlavor-full", Command::DeleteFlavor(DeleteFlavor { id: FlavorId(uuid(4)), expected })),
        ("DeleteGroup-full", Command::DeleteGroup(DeleteGroup { id: group, expected })),
        ("DeleteProject-full", Command::DeleteProject(DeleteProject { id: ProjectId(uuid(31)), expected })),
        ("DeleteAggregate-full", Command::DeleteAggregate(DeleteAggregate { id: aggregate, expected })),
        (
            "UpdateGroup-full",
            Command::UpdateGroup(UpdateGroup {
                id: group,
                name: Some("shop".into()),
                max_server_per_host: Some(3),
                expected,
            }),
        ),
        (
            "UpdateAggregate-full",
            Command::UpdateAggregate(UpdateAggregate {
                id: aggregate,
                name: Some("rack-1".into()),
                add_nodes: BTreeSet::from([node]),
                remove_nodes: BTreeSet::new(),
                metadata: BTreeMap::new(),
                inventory: BTreeMap::from([(ResourceClass::MemoryMb, Some(overrides()))]),
                expected,
            }),
        ),
        (
            "UpdateAggregate-taken-back",
            Command::UpdateAggregate(UpdateAggregate {
                id: aggregate,
                name: None,
                add_nodes: BTreeSet::new(),
                remove_nodes: BTreeSet::new(),
                metadata: BTreeMap::new(),
                inventory: BTreeMap::from([(ResourceClass::MemoryMb, Some(taken_back))]),
                expected,
            }),
        ),
        (
            "CreateImage-full",
            Command::CreateImage(CreateImage {
                id: ImageId(uuid(5)),
                name: "guest".into(),
                kind: image::ImageKind::Kernel,
                size_bytes: 600,
                sha256: "ab".repeat(32),
                holder: node,
                properties: BTreeMap::from([("hw_architecture".into(), "x86_64".into())]),
            }),
        ),
        ("ReportNode-full", Command::ReportNode(reported(node))),
        (
            "ReportVms-full",
            Command::ReportVms(ReportVms {
                node,
                boot_id: BootId(uuid(9)),
                sequence: 79,
                reports: vec![VmReport {
                    vm: vm(),
                    epoch: epoch(),
                    run: 2,
                    state: ObservedState::Running,
                    armed_for: Some(Revision(38)),
                    note: Some("one tap is missing".into()),
                }],
            }),
        ),
        (
            "SetClusterPolicy-full",
            Command::SetClusterPolicy(SetClusterPolicy {
                lease_ttl_ms: Some(20_000),
                margin_ms: Some(2_000),
                autostart_wait_ms: Some(60_000),
                expected,
            }),
        ),
        (
            "SetNodeMaintenance-full",
            Command::SetNodeMaintenance(SetNodeMaintenance {
                node,
                on: true,
                reason: Some("new fan".into()),
                drain: None,
                expected,
            }),
        ),
        (
            "SetSchedulerPolicy-full",
            Command::SetSchedulerPolicy(SetSchedulerPolicy { policy: Some(policy()), expected }),
        ),
    ]
}

fn policies() -> VmPolicies {
    VmPolicies {
        disk_loss: DiskLoss::Recreate,
        restart_policy: RestartPolicy::Always,
        start_order: 2,
        start_delay_s: 10,
    }
}

fn policy() -> SchedulerPolicy {
    SchedulerPolicy {
        isolated_images: vec!["guest".into()],
        isolated_nodes: vec!["node1".into()],
        restrict_isolated_hosts_to_isolated_images: false,
        reserve_after_s: 5,
        build_timeout_s: 60,
        n_plus_one: NPlusOne::Refuse,
        preemption: true,
        ..SchedulerPolicy::default()
    }
}

fn overrides() -> InventoryOverride {
    InventoryOverride {
        total: Some(4096),
        reserved: Some(512),
        allocation_ratio_thousandths: Some(1_500),
        min_unit: Some(256),
        max_unit: Some(2048),
        step_size: Some(256),
        ..InventoryOverride::default()
    }
}

fn reported(node: NodeId) -> ReportNode {
    let units = Inventory { min_unit: 2, max_unit: 8, step_size: 2, ..Inventory::of(16) };
    let device =
        PciDevice { alias: "gpu".into(), vendor: "10de".into(), product: "20b0".into(), numa_node: Some(1) };
    let report = node::NodeReport {
        inventory: BTreeMap::from([(ResourceClass::Vcpu, units)]),
        capabilities: BTreeMap::from([("arch".into(), "x86_64".into())]),
        traits: BTreeSet::from(["HW_CPU_X86_AVX2".into()]),
        offer: Offer {
            cpus: BTreeMap::from([(2, 0), (3, 1)]),
            devices: BTreeMap::from([("0000:3b:00.0".into(), device)]),
        },
        load_thousandths: 750,
        orphans: BTreeMap::from([(VmId(uuid(13)), "runs".into())]),
        ..report()
    };
    let (peer_addr, api_addr) = ("10.0.0.1:7461".into(), "10.0.0.1:7460".into());
    ReportNode { node, sequence: 78, peer_addr, api_addr, report }
}

#[test]
fn entries_that_say_everything_are_read_and_written_as_ever() {
    for (name, command) in entries() {
        let entry = Entry { rules: 2, ..entry(command) };
        let bytes = rmp_serde::to_vec_named(&entry).unwrap();
        let committed = committed(&format!("entry-{name}.mp"), &bytes);
        assert_eq!(rmp_serde::from_slice::<Entry>(&committed).unwrap(), entry, "{name} is read differently");
        assert_eq!(bytes, committed, "{name} is written differently");
    }
}

/// Records as no history gives them all at once.
fn full() -> State {
    let mut state = State::default();
    for command in super::trouble::in_trouble() {
        let mut entry = Entry { rules: 2, ..entry(command) };
        entry.proposal.key = None;
        apply(&mut state, &entry);
    }
    let record = state.vms.get_mut(&VmId(uuid(2))).unwrap();
    record.spec.kernel = Some(ImageId(uuid(6)));
    record.spec.cmdline = Some("console=ttyS0".into());
    record.spec.node = Some(NodeId(1));
    record.spec.scheduling = steered(GroupId(uuid(8))).scheduling;
    record.spec.scheduling.preemptible = true;
    record.spec.scheduling.group = None;
    record.spec.extra_specs = BTreeMap::from([("hw:x".into(), "1".into())]);
    record.spec.image_properties = BTreeMap::from([("os_distro".into(), "debian".into())]);
    record.batch = Some(VmId(uuid(2)));
    record.reserved =
        Some(Reservation { node: NodeId(1), since: Revision(20), evicted: BTreeSet::from([VmId(uuid(3))]) });
    record.decision = Some(Decision {
        at: Timestamp(7),
        revision: Revision(17),
        seen: Revision(16),
        policy: Revision(3),
        withheld: BTreeSet::from([NodeId(3)]),
        evicted: BTreeSet::from([VmId(uuid(3))]),
        candidates: 2,
        scores: vec![Score { node: NodeId(1), score_millionths: 1_250_000 }],
    });
    record.excluded = vec![HostReason { node: NodeId(2), by: "build".into(), message: "no disk".into() }];
    record.refusals = vec![HostReason { node: NodeId(3), by: "Capacity".into(), message: "full".into() }];
    record.fault = Some(Fault { message: "it failed".into(), node: Some(NodeId(2)), at: Timestamp(8) });
    record.waiting_since = Some(Timestamp(9));
    record.recovery = Recovery {
        failing_over: true,
        lost_host: Some("drain".into()),
        build_rounds: 2,
        tried_before: 3,
        restarts: 1,
        restarts_since: Some(Timestamp(4)),
        next_restart_at: Some(Timestamp(5)),
        task_since: Some(Timestamp(6)),
        availability_revision: Revision(18),
        vacate: Some(Vacate {
            since: Timestamp(7),
            reason: "rebalance".into(),
            stop: StopMode::Force,
            to: Some(NodeId(3)),
        }),
        move_to: Some(NodeId(3)),
        stopped_for: Some(NodeId(1)),
    };
    if let Some(claim) = &mut record.claim {
        claim.availability = Availability::Failover;
        claim.parts = Parts { cpus: vec![2], devices: BTreeSet::from(["0000:3b:00.0".into()]) };
    }
    let condition = node::Condition { since: Timestamp(5), message: "another host is this node".into() };
    let mut record = state.nodes.get_mut(&NodeId(1)).unwrap();
    record.boot_revision = Revision(11);
    record.cloned_at = Some(Timestamp(10));
    record.findings = BTreeMap::from([("Cloned".into(), condition)]);
    record.inventory_overrides = BTreeMap::from([(ResourceClass::MemoryMb, overrides())]);
    record.report = Some(reported(NodeId(1)).report);
    drop(record);
    state.scheduler = policy();
    state.admitted = Revision(19);
    state.freeze = state.freeze.map(|freeze| Freeze { short: BTreeSet::from([NodeId(3)]), ..freeze });
    state
}

#[test]
fn a_snapshot_of_records_that_have_everything_is_read_and_written_as_ever() {
    let bytes = snapshot::encode(&full());
    let committed = committed("snapshot-5.mp", &bytes);
    assert_eq!(bytes, committed, "it is written differently");
    assert_eq!(snapshot::encode(&snapshot::decode(&committed).unwrap()), committed, "it is read differently");
}
