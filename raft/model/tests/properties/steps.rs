//! Steps of a generated history, and the commands they become. Small pools of ids make steps meet each other.

use std::collections::{BTreeMap, BTreeSet};

use holm_model::command::*;
use holm_model::group::GroupPolicy;
use holm_model::image::ImageKind;
use holm_model::node::{DrainPinned, HypervisorFacts, HypervisorKind, NodeReport};
use holm_model::resources::InventoryOverride;
use holm_model::scheduling::Scheduling;
use holm_model::vm::{
    Availability, DiskLoss, HostReason, ObservedState, OnNoHost, RestartPolicy, StopMode, TaskState,
    WantPower,
};
use holm_model::volume::VolumeLock;
use holm_model::*;
use proptest::prelude::*;
use uuid::Uuid;

/// One step of a generated history; small pools of ids make steps meet each other.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "most steps are commands")]
pub enum Step {
    Command(Command),
    /// Place whatever waits on this node, with the current leadership.
    Place {
        node: u64,
        vms: Vec<u8>,
        atomic: bool,
    },
    /// The node of the VM's claim reports or releases it at the right epoch (or one before).
    Report {
        vm: u8,
        state: ObservedState,
        stale: bool,
        run_back: u64,
    },
    Release {
        vm: u8,
        deleted: bool,
        stale: bool,
    },
    Fence(NodeId),
    Unfence {
        node: NodeId,
        stale: bool,
    },
    EndFreeze,
    ShortenLease(NodeId),
    Vacate(Vec<VmId>),
    Vacated {
        vm: u8,
    },
    Move {
        vm: u8,
        to: NodeId,
    },
    Preempt {
        vm: u8,
        victims: Vec<VmId>,
    },
    StopForDrain(Vec<VmId>),
    Restart {
        vm: u8,
    },
    Overdue {
        vm: u8,
    },
    Clock {
        by_ms: i64,
    },
}

pub fn vm_id(n: u8) -> VmId {
    VmId(Uuid::from_u128(u128::from(n) + 1000))
}
pub fn flavor_id(n: u8) -> FlavorId {
    FlavorId(Uuid::from_u128(u128::from(n) + 2000))
}
pub fn image_id(n: u8) -> ImageId {
    ImageId(Uuid::from_u128(u128::from(n) + 3000))
}
pub fn boot(n: u8) -> BootId {
    BootId(Uuid::from_u128(u128::from(n) + 4000))
}
/// `default`, or one of two that are there only after `CreateProject`.
pub fn project(n: u8) -> String {
    if n == 2 { "default".into() } else { format!("p{n}") }
}
pub fn actor() -> Actor {
    Actor { name: "test".into(), project: project(2) }
}
/// Whoever's turn it is: of another project now and then.
pub fn actor_of(turn: u64) -> Actor {
    let n = (turn % 5).min(2) as u8;
    Actor { project: project(n), ..actor() }
}
/// When N+1 was judged with the VM; mostly it was not asked.
fn judged(vm: u8) -> Option<Revision> {
    vm.is_multiple_of(3).then(|| Revision(u64::from(vm) * 30))
}
pub fn report(boot_id: BootId, vcpus: u64, memory: u64) -> NodeReport {
    let inventory =
        |total, ratio| Inventory { reserved: 1, allocation_ratio_thousandths: ratio, ..Inventory::of(total) };
    NodeReport {
        boot_id,
        version: "0".into(),
        hypervisor: HypervisorFacts {
            kind: HypervisorKind::Simulated,
            version: String::new(),
            reason: "test".into(),
        },
        inventory: BTreeMap::from([
            (ResourceClass::Vcpu, inventory(vcpus, 4000)),
            (ResourceClass::MemoryMb, inventory(memory, 1000)),
            (ResourceClass::DiskGb, inventory(50, 1000)),
        ]),
        conditions: BTreeMap::new(),
        capabilities: BTreeMap::new(),
        traits: BTreeSet::new(),
        load_thousandths: 0,
        orphans: Default::default(),
        offer: Default::default(),
    }
}

pub fn stop() -> impl Strategy<Value = StopMode> {
    prop_oneof![Just(StopMode::Force), (0..90u32).prop_map(|timeout_s| StopMode::Graceful { timeout_s })]
}

pub fn observed() -> impl Strategy<Value = ObservedState> {
    prop_oneof![
        3 => Just(ObservedState::Running),
        1 => Just(ObservedState::Paused),
        2 => Just(ObservedState::Stopped),
        1 => Just(ObservedState::GuestOff),
        1 => Just(ObservedState::Failed { reason: "it died".into() }),
        1 => Just(ObservedState::Unknown { reason: "no answer".into() }),
        1 => Just(ObservedState::Progress { step: "copying".into() }),
    ]
}

pub fn step() -> impl Strategy<Value = Step> {
    // Mostly what exists, so that histories get somewhere; sometimes what does not.
    let node = prop_oneof![6 => 1..3u64, 1 => 0..5u64];
    let flavor = prop_oneof![6 => Just(0u8), 1 => 0..3u8];
    let image = prop_oneof![6 => Just(0u8), 1 => 0..2u8];
    let vm = 0..8u8;
    let command = |c| Step::Command(c);
    prop_oneof![
        1 => (node.clone(), any::<u64>()).prop_map(move |(n, inc)| command(Command::BeginLeadership(BeginLeadership {
            node: NodeId(n), term: inc % 7, incarnation: Incarnation(Uuid::from_u128(u128::from(inc))),
        }))),
        2 => node.clone().prop_map(move |n| command(Command::AddNode(AddNode {
            name: format!("node{n}"), peer_addr: format!("h{n}:1"), api_addr: format!("h{n}:2"),
        }))),
        3 => (node.clone(), 0..3u8, 0..50u64, 1..9u64, 64..9000u64).prop_map(move |(n, b, sequence, vcpus, memory)| {
            command(Command::ReportNode(ReportNode {
                node: NodeId(n), sequence, peer_addr: format!("h{n}:1"), api_addr: format!("h{n}:2"),
                report: report(boot(b), vcpus, memory),
            }))
        }),
        3 => (node.clone(), any::<bool>(), 0..60u64).prop_map(move |(n, up, leadership)| command(Command::SetNodeUp(
            SetNodeUp { leadership: Revision(leadership), node: NodeId(n), up }))),
        1 => (node.clone(), any::<bool>()).prop_map(move |(n, enabled)| command(Command::SetNodeEnabled(
            SetNodeEnabled { node: NodeId(n), enabled, reason: None, expected: None }))),
        1 => (node.clone(), any::<bool>()).prop_map(move |(n, off)| command(Command::RemoveNode(
            RemoveNode { node: NodeId(n), confirm_node_off: off }))),
        2 => (0..3u8, 0..4u32, 0..600u64, 0..9u64).prop_map(move |(f, vcpus, memory_mib, disk_gib)| {
            command(Command::CreateFlavor(CreateFlavor {
                id: flavor_id(f), name: format!("f{f}"),
                size: flavor::Size { vcpus, memory_mib, disk_gib }, extra_specs: BTreeMap::new(),
            }))
        }),
        1 => (1..3u8).prop_map(move |f| command(Command::DeleteFlavor(DeleteFlavor { id: flavor_id(f), expected: None }))),
        2 => (0..2u8, node.clone()).prop_map(move |(i, n)| command(Command::CreateImage(CreateImage {
            id: image_id(i), name: format!("i{i}"), kind: ImageKind::Kernel, size_bytes: 10,
            sha256: "a".repeat(64), holder: NodeId(n), properties: BTreeMap::new(),
        }))),
        1 => (0..2u8, node.clone(), any::<bool>()).prop_map(move |(i, n, held)| command(Command::ReportImage(
            ReportImage { node: NodeId(n), image: image_id(i), held }))),
        1 => (0..2u8).prop_map(move |i| command(Command::DeleteImage(DeleteImage { id: image_id(i), expected: None }))),
        8 => (vm.clone(), flavor, image, proptest::option::weighted(0.2, node.clone()),
              proptest::option::weighted(0.4, 0..3u8), proptest::option::weighted(0.1, 0..2u8)).prop_map(move |(v, f, i, n, g, z)| {
            command(Command::CreateVm(CreateVm {
                admitted: judged(v),
                id: vm_id(v), name: format!("vm{v}"), flavor: flavor_id(f), image: image_id(i), kernel: None,
                cmdline: None, node: n.map(NodeId), availability: Availability::Pinned, policies: Default::default(), on_no_host: OnNoHost::Queue,
                scheduling: Scheduling { group: g.map(group_id), availability_zone: z.map(|z| format!("z{z}")),
                    priority: i32::from(v) % 3, preemptible: v % 2 == 0, ..Scheduling::default() },
                volumes: (v > 5).then(|| volume_id(v % 2)).into_iter().collect(),
            }))
        }),
        10 => (node.clone(), proptest::collection::vec(vm.clone(), 0..5), any::<bool>())
            .prop_map(|(node, vms, atomic)| Step::Place { node, vms, atomic }),
        2 => (vm.clone(), 0..60u64, any::<bool>()).prop_map(move |(v, leadership, give_up)| command(Command::NoHost(NoHost {
            leadership: Revision(leadership), vm: vm_id(v), give_up,
            refusals: vec![HostReason { node: NodeId(1), by: "Capacity".into(), message: "full".into() }],
            counts: if give_up { [("Capacity".to_owned(), 3)].into() } else { Default::default() },
            reserve: (leadership % 2 == 0).then_some(NodeId(1 + leadership % 3)),
            retry: leadership % 3 == 0,
            batch: (leadership % 5 == 0).then_some(BatchFit { fit: 1, of: 2 }),
            also: (leadership % 4 == 1).then(|| vm_id(2)).into_iter().collect(),
            choice: give_up.then(|| Choice {
                seen: Revision(leadership), withheld: Default::default(), candidates: 0, scores: Vec::new(),
                policy: Some(Revision(leadership)),
            }),
        }))),
        4 => (vm.clone(), any::<bool>(), any::<bool>(), stop()).prop_map(move |(v, on, reboot, stop)| {
            command(Command::SetVmPower(SetVmPower {
                vm: vm_id(v), want: if on { WantPower::On } else { WantPower::Off }, reboot, stop, admitted: judged(v), expected: None,
            }))
        }),
        3 => vm.clone().prop_map(move |v| command(Command::DeleteVm(DeleteVm { vm: vm_id(v), expected: None }))),
        8 => (vm.clone(), observed(), any::<bool>(), 0..2u64)
            .prop_map(|(vm, state, stale, run_back)| Step::Report { vm, state, stale, run_back }),
        4 => (vm.clone(), any::<bool>(), any::<bool>()).prop_map(|(vm, deleted, stale)| Step::Release { vm, deleted, stale }),
        6 => steering(vm.clone()).prop_map(Step::Command),
        6 => trouble(vm),
    ]
}

/// When machines fail, or are made to.
pub fn trouble(vm: impl Strategy<Value = u8> + Clone + 'static) -> impl Strategy<Value = Step> {
    let node = || (1..4u64).prop_map(NodeId);
    let pinned = prop_oneof![Just(DrainPinned::Stop), Just(DrainPinned::Keep)];
    let drain = || {
        let pinned = pinned.clone();
        proptest::option::of(
            (0..5_000u32, pinned)
                .prop_map(|(stop_timeout_s, pinned)| DrainRequest { stop_timeout_s, pinned }),
        )
    };
    let command = Step::Command;
    let vms = proptest::collection::vec(vm.clone().prop_map(vm_id), 0..4);
    prop_oneof![
        3 => node().prop_map(Step::Fence),
        2 => (node(), any::<bool>()).prop_map(|(node, stale)| Step::Unfence { node, stale }),
        1 => (node(), drain()).prop_map(move |(node, drain)| {
            command(Command::SetNodeDrain(SetNodeDrain { node, drain, expected: None }))
        }),
        1 => (node(), any::<bool>(), drain()).prop_map(move |(node, on, drain)| {
            command(Command::SetNodeMaintenance(SetNodeMaintenance { node, on, reason: None, drain, expected: None }))
        }),
        1 => (0..20_000u64).prop_map(move |ttl| command(Command::SetClusterPolicy(SetClusterPolicy {
            lease_ttl_ms: Some(ttl), ..SetClusterPolicy::default()
        }))),
        1 => proptest::option::of(0..9u64).prop_map(move |for_ms| {
            command(Command::SetFreeze(SetFreeze { for_ms, reason: None }))
        }),
        1 => Just(Step::EndFreeze),
        1 => node().prop_map(Step::ShortenLease),
        3 => (vm.clone(), any::<bool>(), any::<bool>()).prop_map(move |(vm, failover, restart)| {
            let availability = if failover { Availability::Failover } else { Availability::Pinned };
            let restart_policy = if restart { RestartPolicy::Always } else { RestartPolicy::Never };
            command(Command::SetVmPolicies(SetVmPolicies {
                admitted: judged(vm),
                vm: vm_id(vm), availability: Some(availability), disk_loss: Some(DiskLoss::Recreate),
                restart_policy: Some(restart_policy), start_order: None, start_delay_s: None, any_node: false, expected: None,
            }))
        }),
        2 => vms.clone().prop_map(Step::Vacate),
        2 => (vm.clone(), vms.clone()).prop_map(|(vm, victims)| Step::Preempt { vm, victims }),
        2 => (vm.clone(), 1..4u64).prop_map(|(vm, to)| Step::Move { vm, to: NodeId(to) }),
        1 => vms.prop_map(Step::StopForDrain),
        2 => vm.clone().prop_map(|vm| Step::Restart { vm }),
        2 => vm.clone().prop_map(|vm| Step::Overdue { vm }),
        1 => any::<i64>().prop_map(|by_ms| Step::Clock { by_ms }),
        3 => (0..2u8, any::<bool>()).prop_map(move |(v, guarded)| command(Command::CreateVolume(CreateVolume {
            id: volume_id(v), name: format!("v{v}"), path: format!("/dev/disk/{v}"), read_only: false,
            lock: if guarded { VolumeLock::PersistentReservation } else { VolumeLock::None },
        }))),
        1 => (0..2u8).prop_map(move |v| command(Command::DeleteVolume(DeleteVolume { id: volume_id(v), expected: None }))),
        2 => vm.clone().prop_map(|vm| Step::Vacated { vm }),
        1 => (vm.clone(), any::<bool>()).prop_map(move |(vm, confirm_node_off)| {
            command(Command::EvacuateVm(EvacuateVm { vm: vm_id(vm), confirm_node_off, admitted: judged(vm), expected: None }))
        }),
        1 => vm.prop_map(move |vm| command(Command::ResetVmState(ResetVmState { vm: vm_id(vm), expected: None }))),
    ]
}

/// Changes of what a node or an aggregate offers, often below what is claimed: less, more reserved than there is, a ratio
/// below 1, units that no VM has, or nothing said any longer.
fn inventory() -> impl Strategy<Value = BTreeMap<ResourceClass, Option<InventoryOverride>>> {
    let class =
        prop_oneof![Just(ResourceClass::Vcpu), Just(ResourceClass::MemoryMb), Just(ResourceClass::DiskGb)];
    let few = || proptest::option::of(0..12u64);
    let unit = |units| proptest::option::weighted(0.2, units);
    let ratio = proptest::option::of(1..4_000u64);
    let over = (few(), few(), ratio, unit(1..4u64), unit(1..70u64), unit(1..4u64));
    let over = over.prop_map(|(total, reserved, ratio, min_unit, max_unit, step_size)| InventoryOverride {
        total,
        reserved,
        allocation_ratio_thousandths: ratio,
        min_unit,
        max_unit,
        step_size,
        ..InventoryOverride::default()
    });
    proptest::collection::btree_map(class, proptest::option::of(over), 1..3)
}

/// Commands about what steers placement.
pub fn steering(vm: impl Strategy<Value = u8> + Clone + 'static) -> impl Strategy<Value = Command> {
    let node = 1..4u64;
    let group = 0..3u8;
    let nodes = proptest::collection::btree_set(node.clone().prop_map(NodeId), 0..3);
    let zone = |z: u8| BTreeMap::from([("availability_zone".to_owned(), format!("z{z}"))]);
    prop_oneof![
        2 => (group.clone(), 0..4u8, proptest::option::of(0..3u32)).prop_map(|(g, policy, max_server_per_host)| {
            let policy = [
                GroupPolicy::Affinity, GroupPolicy::AntiAffinity, GroupPolicy::SoftAffinity, GroupPolicy::AntiAffinity,
            ][usize::from(policy)];
            Command::CreateGroup(CreateGroup { id: group_id(g), name: format!("g{g}"), policy, max_server_per_host })
        }),
        1 => (group.clone(), 0..3u32).prop_map(|(g, max)| Command::UpdateGroup(UpdateGroup {
            id: group_id(g), name: None, max_server_per_host: Some(max), expected: None,
        })),
        1 => group.prop_map(|g| Command::DeleteGroup(DeleteGroup { id: group_id(g), expected: None })),
        1 => (0..3u8, nodes.clone(), 0..3u8).prop_map(move |(a, nodes, z)| Command::CreateAggregate(CreateAggregate {
            id: aggregate_id(a), name: format!("a{a}"), nodes, metadata: zone(z),
        })),
        2 => (0..3u8, nodes.clone(), nodes, inventory()).prop_map(move |(a, add_nodes, remove_nodes, inventory)| {
            Command::UpdateAggregate(UpdateAggregate {
                id: aggregate_id(a), name: None, add_nodes, remove_nodes, metadata: BTreeMap::new(), inventory, expected: None,
            })
        }),
        2 => (0..5u8).prop_map(|off| Command::SetSchedulerPolicy(SetSchedulerPolicy {
            policy: Some(policy::SchedulerPolicy {
                preemption: off > 0,
                n_plus_one: if off % 2 == 0 { policy::NPlusOne::Refuse } else { policy::NPlusOne::Warn },
                ..policy::SchedulerPolicy::default()
            }),
            expected: None,
        })),
        1 => (0..3u8).prop_map(|a| Command::DeleteAggregate(DeleteAggregate { id: aggregate_id(a), expected: None })),
        2 => (node, inventory()).prop_map(move |(n, inventory)| Command::UpdateNode(UpdateNode {
            node: NodeId(n), labels: BTreeMap::from([("disk".into(), (n > 1).then(|| n.to_string()))]), taints: None,
            traits: None, inventory, expected: None,
        })),
        3 => (0..3u8, 0..3usize, proptest::option::of(0..12u64)).prop_map(|(p, class, limit)| Command::SetQuota(SetQuota {
            project: project(p),
            limits: BTreeMap::from([([ResourceClass::Vcpu, ResourceClass::DiskGb, ResourceClass::Custom(quota::VMS.into())]
                [class].clone(), limit)]),
        })),
        1 => (0..2u8).prop_map(|p| Command::CreateProject(CreateProject {
            id: project_id(p), name: format!("p{p}"), description: String::new(),
        })),
        1 => (0..2u8).prop_map(|p| Command::UpdateProject(UpdateProject {
            id: project_id(p), description: "new".into(), expected: None,
        })),
        1 => (0..2u8).prop_map(|p| Command::DeleteProject(DeleteProject { id: project_id(p), expected: None })),
        3 => (proptest::collection::vec(vm, 0..4), any::<bool>()).prop_map(|(vms, atomic)| Command::CreateVms(CreateVms {
            items: vms.into_iter().map(create).collect(), atomic,
        })),
    ]
}

pub fn group_id(n: u8) -> GroupId {
    GroupId(Uuid::from_u128(u128::from(n) + 5000))
}
pub fn volume_id(n: u8) -> VolumeId {
    VolumeId(Uuid::from_u128(u128::from(n) + 7000))
}
pub fn project_id(n: u8) -> ProjectId {
    ProjectId(Uuid::from_u128(u128::from(n) + 7000))
}
pub fn aggregate_id(n: u8) -> AggregateId {
    AggregateId(Uuid::from_u128(u128::from(n) + 6000))
}

pub fn create(n: u8) -> CreateVm {
    CreateVm {
        admitted: None,
        id: vm_id(n),
        name: format!("vm{n}"),
        flavor: flavor_id(0),
        image: image_id(0),
        kernel: None,
        cmdline: None,
        node: None,
        availability: Availability::Pinned,
        policies: Default::default(),
        on_no_host: OnNoHost::Queue,
        scheduling: Scheduling::default(),
        volumes: Vec::new(),
    }
}

/// Turns a step into a command that fits the state where the step says so.
pub fn command_of(step: &Step, state: &State, n: u64) -> Command {
    let leadership = state.leadership.map(|l| l.revision).unwrap_or_default();
    match step {
        Step::Fence(node) => Command::FenceNode(FenceNode { leadership, node: *node }),
        Step::Unfence { node, stale } => {
            let fence =
                state.nodes.get(node).and_then(|node| node.fence.as_ref()).map(|fence| fence.revision);
            let fence = Revision(fence.unwrap_or_default().0.saturating_sub(u64::from(*stale)));
            let report = state.nodes.get(node).and_then(|node| node.report.as_ref());
            let boot_id = report.map_or(boot(0), |report| report.boot_id);
            Command::UnfenceNode(UnfenceNode { node: *node, boot_id, fence, found: 0 })
        }
        Step::EndFreeze => {
            let freeze = state.freeze.as_ref().map(|freeze| freeze.revision).unwrap_or_default();
            Command::EndFreeze(EndFreeze { leadership, freeze })
        }
        Step::ShortenLease(node) => {
            let freeze = state.freeze.as_ref().map(|freeze| freeze.revision).unwrap_or_default();
            Command::ShortenLease(ShortenLease { node: *node, freeze })
        }
        Step::Vacate(vms) => Command::VacateVms(VacateVms {
            leadership,
            vms: vms.clone(),
            reason: "test".into(),
            stop: StopMode::Force,
        }),
        Step::Move { vm, to } => {
            let (_, epoch, _) = claim(state, *vm, false);
            Command::MoveVms(MoveVms {
                moves: vec![Relocation { vm: vm_id(*vm), epoch, to: *to, gain: 0 }],
                planned: (vm % 2 == 0).then_some(1),
                admitted: judged(*vm),
                stop: StopMode::Force,
            })
        }
        Step::Preempt { vm, victims } => Command::PreemptVms(PreemptVms {
            leadership,
            vm: vm_id(*vm),
            node: victims
                .iter()
                .find_map(|id| state.vms.get(id)?.claim.as_ref())
                .map_or(NodeId(1), |c| c.node),
            victims: victims.clone(),
            stop: StopMode::Force,
        }),
        Step::Vacated { vm } => {
            let (node, epoch, _) = claim(state, *vm, false);
            Command::Released(Released { node, vm: vm_id(*vm), epoch, cause: ReleaseCause::Vacated })
        }
        Step::StopForDrain(vms) => Command::StopForDrain(StopForDrain { leadership, vms: vms.clone() }),
        Step::Restart { vm } => {
            let (_, _, run) = claim(state, *vm, false);
            Command::RestartVm(RestartVm { leadership, vm: vm_id(*vm), run })
        }
        Step::Overdue { vm } => {
            let (_, _, run) = claim(state, *vm, false);
            let task_state = state.vms.get(&vm_id(*vm)).and_then(|vm| vm.task_state);
            let task_state = task_state.unwrap_or(TaskState::Spawning);
            Command::TaskOverdue(TaskOverdue { leadership, vm: vm_id(*vm), task_state, run })
        }
        Step::Clock { by_ms } => Command::SetClock(SetClock { leadership, by_ms: *by_ms }),
        Step::Command(command) => command.clone(),
        Step::Place { node, vms, atomic } => Command::PlaceVms(PlaceVms {
            leadership: state.leadership.map(|l| l.revision).unwrap_or_default(),
            placements: vms
                .iter()
                .map(|v| Placement { vm: vm_id(*v), node: NodeId(*node), choice: None })
                .collect(),
            atomic: *atomic,
        }),
        Step::Report { vm, state: observed, stale, run_back } => {
            let (node, epoch, run) = claim(state, *vm, *stale);
            let boot_id =
                state.nodes.get(&node).and_then(|n| n.report.as_ref()).map_or(boot(0), |r| r.boot_id);
            let reports = vec![VmReport {
                vm: vm_id(*vm),
                epoch,
                run: run.saturating_sub(*run_back),
                state: observed.clone(),
                armed_for: state.vms.get(&vm_id(*vm)).map(|vm| vm.recovery.availability_revision),
                note: None,
            }];
            Command::ReportVms(ReportVms { node, boot_id, sequence: n, reports })
        }
        Step::Release { vm, deleted, stale } => {
            let (node, epoch, _) = claim(state, *vm, *stale);
            let cause = if *deleted {
                ReleaseCause::Deleted
            } else {
                ReleaseCause::BuildFailed { reason: "no luck".into() }
            };
            Command::Released(Released { node, vm: vm_id(*vm), epoch, cause })
        }
    }
}

pub fn claim(state: &State, vm: u8, stale: bool) -> (NodeId, Epoch, u64) {
    let back = u64::from(stale);
    state.vms.get(&vm_id(vm)).map_or((NodeId(1), Epoch(Revision(0)), 1), |vm| match &vm.claim {
        Some(claim) => (claim.node, Epoch(Revision(claim.epoch.0.0.saturating_sub(back))), vm.power.run),
        None => (NodeId(1), Epoch(Revision(back)), vm.power.run),
    })
}
