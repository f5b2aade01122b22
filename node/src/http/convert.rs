//! From records of the model to what REST shows: the only place that knows both. Ids become names here,
//! and what an operator needs beside a record (is its node up? is it simulated?) is put in.

mod placement;
mod policy;
mod recovery;
mod volume;

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use holm_api as api;
use holm_model::reply::Kind;
use holm_model::{self as model, NodeId, State};
use holm_raft::handle::RaftStatus;
use model::vm::{ObservedState, OnNoHost, TaskState, VmStatus, WantPower};

pub use self::placement::*;
pub use self::policy::*;
pub use self::recovery::*;
pub use self::volume::*;

/// The year 9999's end: RFC 3339 knows no later moment.
const LATEST_MS: u64 = 253_402_300_799_999;

pub fn timestamp(at: model::Timestamp) -> api::Timestamp {
    let at = UNIX_EPOCH + Duration::from_millis(at.0.min(LATEST_MS));
    api::Timestamp(humantime::format_rfc3339_millis(at).to_string())
}

/// A node's name; of one that was removed, its number.
pub fn node_name(state: &State, id: NodeId) -> String {
    state.nodes.get(&id).map_or_else(|| format!("removed-node-{id}"), |node| node.name.clone())
}

pub fn node_ref(state: &State, id: NodeId) -> api::NodeRef {
    api::NodeRef { id: id.0, name: node_name(state, id) }
}

pub fn vm(state: &State, vm: &model::vm::Vm) -> api::Vm {
    let node = vm.claim.as_ref().and_then(|claim| state.nodes.get(&claim.node));
    let report = node.and_then(|node| node.report.as_ref());
    let hosts = |reasons: &[model::vm::HostReason]| reasons.iter().map(|r| host_reason(state, r)).collect();
    api::Vm {
        id: vm.id.0,
        name: vm.name.clone(),
        project: vm.project.clone(),
        status: vm_status(vm.status),
        task_state: vm.task_state.map(task_state),
        node: vm.claim.as_ref().map(|claim| node_name(state, claim.node)),
        node_id: vm.claim.as_ref().map(|claim| claim.node.0),
        node_up: node.map(|node| node.up),
        hypervisor: report.map(|report| hypervisor(&report.hypervisor)),
        epoch: vm.claim.as_ref().map(|claim| claim.epoch.0.0),
        flavor: api::vm::VmFlavor {
            id: vm.spec.flavor.0,
            name: vm.spec.flavor_name.clone(),
            vcpus: vm.spec.size.vcpus,
            memory_mib: vm.spec.size.memory_mib,
            disk_gib: vm.spec.size.disk_gib,
        },
        image: image_ref(state, vm.spec.image),
        kernel: vm.spec.kernel.map(|kernel| image_ref(state, kernel)),
        cmdline: vm.spec.cmdline.clone(),
        volumes: volume_names(state, &vm.spec.volumes),
        requested_node: vm.spec.node.map(|node| node_name(state, node)),
        on_no_host: match vm.spec.on_no_host {
            OnNoHost::Queue => api::vm::OnNoHost::Queue,
            OnNoHost::Fail => api::vm::OnNoHost::Fail,
        },
        availability: availability(vm.spec.availability),
        availability_in_force: vm.claim.as_ref().map(|claim| availability(claim.availability)),
        disk_loss: disk_loss(vm.spec.policies.disk_loss),
        restart_policy: restart_policy(vm.spec.policies.restart_policy),
        start_order: vm.spec.policies.start_order,
        start_delay_s: vm.spec.policies.start_delay_s,
        recovery: recovery(state, vm),
        scheduling: scheduling(state, &vm.spec.scheduling),
        decision: vm.decision.as_ref().map(|made| decision(state, made)),
        power: match vm.power.want {
            WantPower::On => api::vm::Power::On,
            WantPower::Off => api::vm::Power::Off,
        },
        run: vm.power.run,
        fault: vm.fault.as_ref().map(|fault| api::vm::Fault {
            message: fault.message.clone(),
            node: fault.node.map(|node| node_name(state, node)),
            at: timestamp(fault.at),
        }),
        observed: vm.observed.as_ref().map(observed),
        excluded: hosts(&vm.excluded),
        refusals: hosts(&vm.refusals),
        advice: Vec::new(),
        allocations: vm.claim.as_ref().map(|claim| amounts(&claim.resources)).unwrap_or_default(),
        cpus: vm.claim.iter().flat_map(|claim| claim.parts.cpus.iter().copied()).collect(),
        pci_devices: vm.claim.iter().flat_map(|claim| claim.parts.devices.iter().cloned()).collect(),
        reserved_node: vm.reserved.as_ref().map(|reserved| node_name(state, reserved.node)),
        waiting_since: vm.waiting_since.map(timestamp),
        build_deadline: waits_until(state, vm),
        created_at: timestamp(vm.created_at),
        updated_at: timestamp(vm.updated_at),
        revision: vm.revision.0,
        warnings: Vec::new(),
    }
}

/// One that lost its node waits for another without end.
fn waits_until(state: &State, vm: &model::vm::Vm) -> Option<api::Timestamp> {
    let since = vm.waiting_since.filter(|_| !vm.recovery.failing_over)?;
    Some(timestamp(model::Timestamp(since.0.saturating_add(state.scheduler.build_timeout_ms()))))
}

pub fn vm_status(status: VmStatus) -> api::VmStatus {
    match status {
        VmStatus::Build => api::VmStatus::Build,
        VmStatus::Active => api::VmStatus::Active,
        VmStatus::Paused => api::VmStatus::Paused,
        VmStatus::Shutoff => api::VmStatus::Shutoff,
        VmStatus::Error => api::VmStatus::Error,
        VmStatus::Migrating => api::VmStatus::Migrating,
        VmStatus::Deleting => api::VmStatus::Deleting,
    }
}

pub fn task_state(step: TaskState) -> api::vm::TaskState {
    match step {
        TaskState::Scheduling => api::vm::TaskState::Scheduling,
        TaskState::Spawning => api::vm::TaskState::Spawning,
        TaskState::PoweringOn => api::vm::TaskState::PoweringOn,
        TaskState::PoweringOff => api::vm::TaskState::PoweringOff,
        TaskState::Rebooting => api::vm::TaskState::Rebooting,
        TaskState::Deleting => api::vm::TaskState::Deleting,
        TaskState::Restarting => api::vm::TaskState::Restarting,
        TaskState::Moving => api::vm::TaskState::Moving,
    }
}

fn observed(observed: &model::vm::Observed) -> api::vm::Observed {
    use api::vm::ObservedState as Shown;
    let (state, step, reason) = match &observed.state {
        ObservedState::Progress { step } => (Shown::Progress, Some(step.clone()), None),
        ObservedState::Running => (Shown::Running, None, None),
        ObservedState::Paused => (Shown::Paused, None, None),
        ObservedState::Stopped => (Shown::Stopped, None, None),
        ObservedState::GuestOff => (Shown::GuestOff, None, None),
        ObservedState::Failed { reason } => (Shown::Failed, None, Some(reason.clone())),
        ObservedState::Unknown { reason } => (Shown::Unknown, None, Some(reason.clone())),
    };
    api::vm::Observed { state, step, reason, run: observed.run, at: timestamp(observed.at) }
}

pub fn host_reason(state: &State, reason: &model::vm::HostReason) -> api::vm::HostReason {
    api::vm::HostReason {
        node: node_name(state, reason.node),
        node_id: reason.node.0,
        by: reason.by.clone(),
        message: reason.message.clone(),
    }
}

fn image_ref(state: &State, id: model::ImageId) -> api::vm::ImageRef {
    let name = state.images.get(&id).map_or_else(|| id.to_string(), |image| image.name.clone());
    api::vm::ImageRef { id: id.0, name }
}

fn hypervisor(facts: &model::node::HypervisorFacts) -> api::Hypervisor {
    api::Hypervisor {
        kind: match facts.kind {
            model::node::HypervisorKind::CloudHypervisor => api::HypervisorKind::CloudHypervisor,
            model::node::HypervisorKind::Simulated => api::HypervisorKind::Simulated,
        },
        version: facts.version.clone(),
        reason: facts.reason.clone(),
    }
}

/// How `id` stands in Raft, as this node sees it.
pub fn role(status: &RaftStatus, id: NodeId) -> api::Role {
    if status.leader == Some(id) {
        api::Role::Leader
    } else if status.voters.contains(&id) {
        api::Role::Voter
    } else if status.learners.contains(&id) {
        api::Role::Learner
    } else {
        api::Role::Joining
    }
}

pub fn node(state: &State, status: &RaftStatus, node: &model::node::Node) -> api::Node {
    let report = node.report.as_ref();
    let aggregates = state.aggregates.values().filter(|aggregate| aggregate.nodes.contains(&node.id));
    api::Node {
        id: node.id.0,
        name: node.name.clone(),
        peer_addr: node.peer_addr.clone(),
        api_addr: node.api_addr.clone(),
        role: role(status, node.id),
        up: node.up,
        up_changed_at: timestamp(node.up_changed_at),
        enabled: node.enabled,
        disabled_reason: node.disabled_reason.clone(),
        version: report.map(|report| report.version.clone()),
        hypervisor: report.map(|report| hypervisor(&report.hypervisor)),
        inventory: node
            .inventory
            .iter()
            .map(|(class, inventory)| {
                let used = node.allocated.get(class);
                (class.name().to_owned(), shown_inventory(inventory, used))
            })
            .collect(),
        inventory_overrides: overrides(&node.inventory_overrides),
        availability_zone: state.zone_of(node.id).to_owned(),
        aggregates: aggregates.map(|aggregate| aggregate.name.clone()).collect(),
        labels: node.labels.clone(),
        taints: node.taints.iter().map(taint).collect(),
        traits: node.traits.iter().cloned().collect(),
        reported_traits: report.into_iter().flat_map(|report| report.traits.iter().cloned()).collect(),
        capabilities: report.map(|report| report.capabilities.clone()).unwrap_or_default(),
        dedicated_cpus: report.map(|report| report.offer.cpus.clone()).unwrap_or_default(),
        pci_devices: pci_devices(state, node),
        load: report.map(|report| report.load_thousandths as f64 / 1e3),
        failed_builds: node.failed_builds,
        conditions: node
            .conditions()
            .map(|(name, condition)| {
                let shown =
                    api::Condition { since: timestamp(condition.since), message: condition.message.clone() };
                (name.to_owned(), shown)
            })
            .collect(),
        fence: node.fence.as_ref().map(|of| fence(state, of)),
        drain: node_drain(state, node),
        maintenance: node
            .maintenance
            .as_ref()
            .map(|of| api::Maintenance { since: timestamp(of.since), reason: of.reason.clone() }),
        orphans: orphans(report),
        vms: vms_on(state, node.id),
        created_at: timestamp(node.created_at),
        revision: node.revision.0,
    }
}

fn orphans(report: Option<&model::node::NodeReport>) -> Vec<api::Orphan> {
    let orphans = report.into_iter().flat_map(|report| &report.orphans);
    orphans.map(|(id, message)| api::Orphan { id: id.0, message: message.clone() }).collect()
}

fn pci_devices(state: &State, node: &model::node::Node) -> BTreeMap<String, api::PciDevice> {
    let holder = |address: &String| {
        let holds = |vm: &&model::vm::Vm| {
            vm.claim.as_ref().is_some_and(|claim| claim.parts.devices.contains(address))
        };
        state.vms_on(node.id).find(holds).map(|vm| vm_name(state, vm.id))
    };
    let one = |(address, device): (&String, &model::parts::PciDevice)| {
        let shown = api::PciDevice {
            alias: device.alias.clone(),
            vendor: device.vendor.clone(),
            product: device.product.clone(),
            numa_node: device.numa_node,
            vm: holder(address),
        };
        (address.clone(), shown)
    };
    node.report.iter().flat_map(|report| &report.offer.devices).map(one).collect()
}

fn shown_inventory(inventory: &model::Inventory, used: u64) -> api::Inventory {
    api::Inventory {
        total: inventory.total,
        reserved: inventory.reserved,
        allocation_ratio: inventory.allocation_ratio_thousandths as f64 / 1000.0,
        capacity: inventory.capacity(),
        used,
        min_unit: inventory.min_unit,
        max_unit: Some(inventory.max_unit).filter(|max| *max != u64::MAX),
        step_size: inventory.step_size,
    }
}

pub fn flavor(flavor: &model::flavor::Flavor) -> api::Flavor {
    api::Flavor {
        id: flavor.id.0,
        name: flavor.name.clone(),
        vcpus: flavor.size.vcpus,
        memory_mib: flavor.size.memory_mib,
        disk_gib: flavor.size.disk_gib,
        extra_specs: flavor.extra_specs.clone(),
        created_at: timestamp(flavor.created_at),
        revision: flavor.revision.0,
    }
}

pub fn image(state: &State, image: &model::image::Image) -> api::Image {
    api::Image {
        id: image.id.0,
        name: image.name.clone(),
        project: image.project.clone(),
        kind: match image.kind {
            model::image::ImageKind::Kernel => api::ImageKind::Kernel,
            model::image::ImageKind::RawDisk => api::ImageKind::RawDisk,
            model::image::ImageKind::Qcow2Disk => api::ImageKind::Qcow2Disk,
        },
        size_bytes: image.size_bytes,
        sha256: image.sha256.clone(),
        properties: image.properties.clone(),
        holders: image.holders.iter().map(|id| node_ref(state, *id)).collect(),
        created_at: timestamp(image.created_at),
        revision: image.revision.0,
    }
}

pub fn image_kind(kind: api::ImageKind) -> model::image::ImageKind {
    match kind {
        api::ImageKind::Kernel => model::image::ImageKind::Kernel,
        api::ImageKind::RawDisk => model::image::ImageKind::RawDisk,
        api::ImageKind::Qcow2Disk => model::image::ImageKind::Qcow2Disk,
    }
}

pub fn event(event: &model::Event) -> api::Event {
    api::Event {
        revision: event.revision.0,
        n: event.n,
        at: timestamp(event.at),
        kind: match event.kind {
            Kind::Cluster => api::EventKind::Cluster,
            Kind::Node | Kind::Label => api::EventKind::Node,
            Kind::Flavor => api::EventKind::Flavor,
            Kind::Image => api::EventKind::Image,
            Kind::Vm => api::EventKind::Vm,
            Kind::Aggregate | Kind::Zone => api::EventKind::Aggregate,
            Kind::Group => api::EventKind::ServerGroup,
            Kind::Policy => api::EventKind::Scheduler,
            Kind::Quota => api::EventKind::Quota,
            Kind::Volume => api::EventKind::Volume,
            Kind::Project => api::EventKind::Project,
        },
        id: event.id.clone(),
        name: event.name.clone(),
        what: event.what.clone(),
        message: event.message.clone(),
        actor: event.actor.clone(),
    }
}
