//! Long-lived formats: entries and snapshots written by any released version are read for ever, and
//! written the same way. A golden file is added once and never changed.

mod fields;
mod full;
mod projects;
mod trouble;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use holm_model::command::*;
use holm_model::flavor::Size;
use holm_model::group::GroupPolicy;
use holm_model::image::ImageKind;
use holm_model::node::{Condition, HypervisorFacts, HypervisorKind, NodeReport};
use holm_model::policy::SchedulerPolicy;
use holm_model::resources::InventoryOverride;
use holm_model::scheduling::{Effect, Operator, Requirement, Scheduling, Taint, Toleration};
use holm_model::vm::{Availability, HostReason, ObservedState, OnNoHost, StopMode, WantPower};
use holm_model::*;
use uuid::Uuid;

fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn vm() -> VmId {
    VmId(uuid(1))
}

fn epoch() -> Epoch {
    Epoch(Revision(41))
}

fn add_node() -> AddNode {
    AddNode { name: "node1".into(), peer_addr: "10.0.0.1:7461".into(), api_addr: "10.0.0.1:7460".into() }
}

fn report() -> NodeReport {
    NodeReport {
        boot_id: BootId(uuid(9)),
        version: "0.1.0".into(),
        hypervisor: HypervisorFacts {
            kind: HypervisorKind::CloudHypervisor,
            version: "v53.0".into(),
            reason: String::new(),
        },
        inventory: BTreeMap::from([
            (ResourceClass::Vcpu, Inventory { allocation_ratio_thousandths: 4000, ..Inventory::of(8) }),
            (ResourceClass::Custom("CUSTOM_GPU".into()), Inventory::of(1)),
        ]),
        conditions: BTreeMap::from([(
            "DiskLow".into(),
            Condition { since: Timestamp(5), message: "little is left".into() },
        )]),
        capabilities: BTreeMap::new(),
        traits: BTreeSet::new(),
        load_thousandths: 0,
        orphans: Default::default(),
        offer: Default::default(),
    }
}

/// One of each. Adding a command breaks this match until it has a sample and a golden file.
fn samples() -> Vec<Command> {
    let leadership = Revision(40);
    let mut samples = vec![
        Command::InitCluster(InitCluster {
            cluster: ClusterId(uuid(2)),
            name: "ship".into(),
            first_node: add_node(),
        }),
        Command::BeginLeadership(BeginLeadership {
            node: NodeId(1),
            term: 3,
            incarnation: Incarnation(uuid(3)),
        }),
        Command::AddNode(add_node()),
        Command::ReportNode(ReportNode {
            node: NodeId(1),
            sequence: 77,
            peer_addr: "10.0.0.1:7461".into(),
            api_addr: "10.0.0.1:7460".into(),
            report: report(),
        }),
        Command::SetNodeUp(SetNodeUp { leadership, node: NodeId(1), up: true }),
        Command::SetNodeEnabled(SetNodeEnabled {
            node: NodeId(1),
            enabled: false,
            reason: Some("new fan".into()),
            expected: Some(Revision(12)),
        }),
        Command::RemoveNode(RemoveNode { node: NodeId(1), confirm_node_off: true }),
        Command::CreateFlavor(CreateFlavor {
            id: FlavorId(uuid(4)),
            name: "small".into(),
            size: Size { vcpus: 1, memory_mib: 64, disk_gib: 0 },
            extra_specs: BTreeMap::from([("hw:x".into(), "1".into())]),
        }),
        Command::DeleteFlavor(DeleteFlavor { id: FlavorId(uuid(4)), expected: None }),
        Command::CreateImage(CreateImage {
            id: ImageId(uuid(5)),
            name: "guest".into(),
            kind: ImageKind::Kernel,
            size_bytes: 600,
            sha256: "ab".repeat(32),
            holder: NodeId(1),
            properties: BTreeMap::new(),
        }),
        Command::ReportImage(ReportImage { node: NodeId(1), image: ImageId(uuid(5)), held: true }),
        Command::DeleteImage(DeleteImage { id: ImageId(uuid(5)), expected: Some(Revision(8)) }),
        Command::CreateVm(CreateVm {
            admitted: None,
            id: vm(),
            name: "a".into(),
            flavor: FlavorId(uuid(4)),
            image: ImageId(uuid(5)),
            kernel: Some(ImageId(uuid(6))),
            cmdline: Some("console=ttyS0".into()),
            node: Some(NodeId(1)),
            availability: Availability::Pinned,
            policies: Default::default(),
            on_no_host: OnNoHost::Fail,
            scheduling: Scheduling::default(),
            volumes: Vec::new(),
        }),
        Command::PlaceVms(PlaceVms {
            leadership,
            placements: vec![Placement { vm: vm(), node: NodeId(1), choice: None }],
            atomic: true,
        }),
        Command::NoHost(NoHost {
            batch: None,
            also: Vec::new(),
            leadership,
            vm: vm(),
            refusals: vec![HostReason {
                node: NodeId(1),
                by: "Capacity".into(),
                message: "VCPU: 2 wanted, 1 free of 4".into(),
            }],
            give_up: false,
            counts: Default::default(),
            reserve: None,
            retry: false,
            choice: None,
        }),
        Command::SetVmPower(SetVmPower {
            vm: vm(),
            want: WantPower::Off,
            reboot: false,
            stop: StopMode::Graceful { timeout_s: 60 },
            admitted: None,
            expected: None,
        }),
        Command::DeleteVm(DeleteVm { vm: vm(), expected: None }),
        Command::ReportVms(ReportVms {
            node: NodeId(1),
            boot_id: BootId(uuid(9)),
            sequence: 78,
            reports: vec![
                VmReport {
                    vm: vm(),
                    epoch: epoch(),
                    run: 1,
                    state: ObservedState::Running,
                    armed_for: None,
                    note: None,
                },
                VmReport {
                    vm: vm(),
                    epoch: epoch(),
                    run: 1,
                    state: ObservedState::Failed { reason: "it died".into() },
                    armed_for: None,
                    note: None,
                },
            ],
        }),
        Command::Released(Released {
            node: NodeId(1),
            vm: vm(),
            epoch: epoch(),
            cause: ReleaseCause::BuildFailed { reason: "no disk".into() },
        }),
    ];
    samples.extend(steering());
    samples.extend(trouble::commands());
    samples.extend(projects::commands());
    samples.extend(volumes::commands());
    for sample in &samples {
        match sample {
            Command::InitCluster(_)
            | Command::BeginLeadership(_)
            | Command::AddNode(_)
            | Command::ReportNode(_)
            | Command::SetNodeUp(_)
            | Command::SetNodeEnabled(_)
            | Command::RemoveNode(_)
            | Command::CreateFlavor(_)
            | Command::DeleteFlavor(_)
            | Command::CreateImage(_)
            | Command::ReportImage(_)
            | Command::DeleteImage(_)
            | Command::CreateVm(_)
            | Command::PlaceVms(_)
            | Command::NoHost(_)
            | Command::SetVmPower(_)
            | Command::DeleteVm(_)
            | Command::ReportVms(_)
            | Command::Released(_)
            | Command::UpdateNode(_)
            | Command::CreateAggregate(_)
            | Command::UpdateAggregate(_)
            | Command::DeleteAggregate(_)
            | Command::CreateGroup(_)
            | Command::UpdateGroup(_)
            | Command::DeleteGroup(_)
            | Command::SetSchedulerPolicy(_)
            | Command::SetQuota(_)
            | Command::CreateVms(_)
            | Command::FenceNode(_)
            | Command::UnfenceNode(_)
            | Command::SetNodeDrain(_)
            | Command::SetNodeMaintenance(_)
            | Command::SetClusterPolicy(_)
            | Command::SettleLeaseTtl(_)
            | Command::SetFreeze(_)
            | Command::EndFreeze(_)
            | Command::SetVmPolicies(_)
            | Command::VacateVms(_)
            | Command::StopForDrain(_)
            | Command::RestartVm(_)
            | Command::TaskOverdue(_)
            | Command::EvacuateVm(_)
            | Command::ResetVmState(_)
            | Command::PreemptVms(_)
            | Command::SetClock(_)
            | Command::CreateProject(_)
            | Command::UpdateProject(_)
            | Command::DeleteProject(_)
            | Command::CreateVolume(_)
            | Command::DeleteVolume(_)
            | Command::ShortenLease(_)
            | Command::MoveVms(_) => {}
        }
    }
    samples
}

fn steering() -> Vec<Command> {
    let aggregate = AggregateId(uuid(7));
    let group = GroupId(uuid(8));
    let half = InventoryOverride { allocation_ratio_thousandths: Some(500), ..InventoryOverride::default() };
    let inventory = BTreeMap::from([(ResourceClass::Vcpu, Some(half))]);
    let taint = Taint { key: "gpu".into(), value: "yes".into(), effect: Effect::NoSchedule };
    vec![
        Command::UpdateNode(UpdateNode {
            node: NodeId(1),
            labels: BTreeMap::from([("disk".into(), Some("nvme".into())), ("old".into(), None)]),
            taints: Some(BTreeSet::from([taint])),
            traits: Some(BTreeSet::from(["CUSTOM_FAST".into()])),
            inventory: inventory.clone(),
            expected: Some(Revision(3)),
        }),
        Command::CreateAggregate(CreateAggregate {
            id: aggregate,
            name: "rack1".into(),
            nodes: BTreeSet::from([NodeId(1)]),
            metadata: BTreeMap::from([("availability_zone".into(), "bow".into())]),
        }),
        Command::UpdateAggregate(UpdateAggregate {
            id: aggregate,
            name: Some("rack-1".into()),
            add_nodes: BTreeSet::new(),
            remove_nodes: BTreeSet::from([NodeId(1)]),
            metadata: BTreeMap::from([("ssd".into(), Some("true".into()))]),
            inventory,
            expected: None,
        }),
        Command::DeleteAggregate(DeleteAggregate { id: aggregate, expected: None }),
        Command::CreateGroup(CreateGroup {
            id: group,
            name: "web".into(),
            policy: GroupPolicy::AntiAffinity,
            max_server_per_host: Some(2),
        }),
        Command::UpdateGroup(UpdateGroup {
            id: group,
            name: None,
            max_server_per_host: Some(3),
            expected: None,
        }),
        Command::SetSchedulerPolicy(SetSchedulerPolicy {
            policy: Some(SchedulerPolicy::default()),
            expected: None,
        }),
        Command::SetQuota(SetQuota {
            project: "default".into(),
            limits: BTreeMap::from([(ResourceClass::Vcpu, Some(8)), (ResourceClass::DiskGb, None)]),
        }),
        Command::CreateVms(CreateVms { items: vec![steered(group)], atomic: true }),
        Command::DeleteGroup(DeleteGroup { id: group, expected: None }),
    ]
}

/// A VM that says everything about its host.
fn steered(group: GroupId) -> CreateVm {
    CreateVm {
        admitted: None,
        id: VmId(uuid(11)),
        name: "web-1".into(),
        flavor: FlavorId(uuid(4)),
        image: ImageId(uuid(5)),
        kernel: None,
        cmdline: None,
        node: None,
        availability: Availability::Pinned,
        policies: Default::default(),
        on_no_host: OnNoHost::Queue,
        scheduling: Scheduling {
            availability_zone: Some("bow".into()),
            node_selector: vec![Requirement {
                key: "disk".into(),
                operator: Operator::In,
                values: vec!["nvme".into()],
            }],
            tolerations: vec![Toleration {
                key: Some("gpu".into()),
                value: None,
                effect: Some(Effect::NoSchedule),
            }],
            group: Some(group),
            different_host: BTreeSet::from([vm()]),
            same_host: BTreeSet::from([VmId(uuid(12))]),
            near: Some("10.1.0.0/16".into()),
            priority: 5,
            preemptible: false,
        },
        volumes: Vec::new(),
    }
}

fn entry(command: Command) -> Entry {
    Entry {
        at: Timestamp(1_700_000_000_000),
        proposal: Proposal {
            key: Some(IdempotencyKey { key: "k".into(), fingerprint: "f".into() }),
            seen: Revision(39),
            actor: Actor { name: "admin".into(), project: "default".into() },
            command,
        },
        rules: 0,
    }
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The committed bytes. With `HOLM_WRITE_GOLDEN=1` a missing file is written first; none is replaced.
fn committed(name: &str, now: &[u8]) -> Vec<u8> {
    let path = golden(name);
    if !path.exists() && std::env::var_os("HOLM_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, now).unwrap();
    }
    #[allow(clippy::disallowed_methods, reason = "a test reads its golden files")]
    let bytes = std::fs::read(&path);
    bytes.unwrap_or_else(|e| panic!("{}: {e}; HOLM_WRITE_GOLDEN=1 adds it", path.display()))
}

#[test]
fn entries_are_read_and_written_as_ever() {
    for command in samples() {
        let name = command.name();
        let entry = entry(command);
        let bytes = rmp_serde::to_vec_named(&entry).unwrap();
        let committed = committed(&format!("entry-{name}.mp"), &bytes);
        assert_eq!(rmp_serde::from_slice::<Entry>(&committed).unwrap(), entry, "{name} is read differently");
        assert_eq!(bytes, committed, "{name} is written differently");
    }
}

#[test]
fn an_unknown_command_is_an_error_that_names_it() {
    #[derive(serde::Serialize)]
    enum Command {
        FoldSpace(u8),
    }
    let bytes = rmp_serde::to_vec_named(&Command::FoldSpace(1)).unwrap();
    let error = rmp_serde::from_slice::<holm_model::Command>(&bytes).unwrap_err().to_string();
    assert!(error.contains("FoldSpace"), "{error}");
}

#[test]
fn snapshots_are_read_and_written_as_ever() {
    let mut state = State::default();
    let later = [trouble::commands(), projects::commands(), volumes::commands()].concat();
    let is_later = |command: &Command| later.iter().any(|later| later.name() == command.name());
    let order = samples().into_iter().filter(|c| !matches!(c, Command::RemoveNode(_)) && !is_later(c));
    for command in order {
        let key = Some(IdempotencyKey { key: command.name().into(), fingerprint: "f".into() });
        let mut entry = entry(command);
        entry.proposal.key = key;
        entry.proposal.seen = state.revision;
        apply(&mut state, &entry);
        invariant::check(&state).unwrap();
    }
    assert!(!state.events.oldest().0 > 0 && !state.nodes.is_empty() && !state.window.is_empty());
    let bytes = snapshot::encode(&state);
    let committed = committed("snapshot-1.mp", &bytes);
    assert_eq!(snapshot::decode(&committed).unwrap(), state);
    assert_eq!(bytes, committed);
}

#[test]
fn a_snapshot_of_another_kind_is_refused_with_the_next_step() {
    let header = |magic: &str, format, cluster_version| {
        let header = snapshot::Header { magic: magic.into(), format, cluster_version };
        rmp_serde::to_vec_named(&(header, State::default())).unwrap()
    };
    let error = |bytes: &[u8]| snapshot::decode(bytes).unwrap_err().to_string();
    assert!(error(&header("tar", 1, 1)).contains("not a Holm snapshot"));
    assert!(error(&header(snapshot::MAGIC, 2, 1)).contains("install the version that wrote it"));
    assert!(error(&header(snapshot::MAGIC, 1, 2)).contains("install the version that wrote it"));
    assert!(error(b"").contains("cannot be decoded"));
}
