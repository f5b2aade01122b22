//! How VMs are kept running, fences, drains, maintenance, and the cluster's policy, as REST shows them.

use holm_api as api;
use holm_model::cluster_policy::{
    AUTOSTART_WAIT_MS_MAX, ClusterPolicy, FAILOVER_NODES_MIN, Freeze, LEASE_TTL_MS_MAX, LEASE_TTL_MS_MIN,
    MARGIN_MS_MAX, MARGIN_MS_MIN,
};
use holm_model::node::{DrainPinned, Fence, Node};
use holm_model::vm::{Availability, DiskLoss, RestartPolicy, Vm, VmPolicies, WantPower};
use holm_model::{State, Timestamp};
use holm_sched::controllers::drain::{self, Left, Next, Outlook, may_run};
use holm_sched::controllers::{fencing, overdue};

use super::{host_reason, node_name, timestamp, vm_name};

pub fn availability(availability: Availability) -> api::Availability {
    match availability {
        Availability::Pinned => api::Availability::Pinned,
        Availability::Failover => api::Availability::Failover,
    }
}

pub fn to_availability(availability: api::Availability) -> Availability {
    match availability {
        api::Availability::Pinned => Availability::Pinned,
        api::Availability::Failover => Availability::Failover,
    }
}

pub fn disk_loss(disk_loss: DiskLoss) -> api::DiskLoss {
    match disk_loss {
        DiskLoss::Refuse => api::DiskLoss::Refuse,
        DiskLoss::Recreate => api::DiskLoss::Recreate,
    }
}

pub fn to_disk_loss(disk_loss: api::DiskLoss) -> DiskLoss {
    match disk_loss {
        api::DiskLoss::Refuse => DiskLoss::Refuse,
        api::DiskLoss::Recreate => DiskLoss::Recreate,
    }
}

pub fn restart_policy(policy: RestartPolicy) -> api::RestartPolicy {
    match policy {
        RestartPolicy::Always => api::RestartPolicy::Always,
        RestartPolicy::OnFailure => api::RestartPolicy::OnFailure,
        RestartPolicy::Never => api::RestartPolicy::Never,
    }
}

pub fn to_restart_policy(policy: api::RestartPolicy) -> RestartPolicy {
    match policy {
        api::RestartPolicy::Always => RestartPolicy::Always,
        api::RestartPolicy::OnFailure => RestartPolicy::OnFailure,
        api::RestartPolicy::Never => RestartPolicy::Never,
    }
}

pub fn to_policies(body: &api::CreateVm) -> VmPolicies {
    VmPolicies {
        disk_loss: to_disk_loss(body.disk_loss),
        restart_policy: to_restart_policy(body.restart_policy),
        start_order: body.start_order,
        start_delay_s: body.start_delay_s,
    }
}

pub fn recovery(state: &State, vm: &Vm) -> api::vm::Recovery {
    let of = &vm.recovery;
    let leaving = |vacate: &holm_model::vm::Vacate| api::vm::Leaving {
        since: timestamp(vacate.since),
        reason: vacate.reason.clone(),
    };
    api::vm::Recovery {
        task_since: of.task_since.filter(|_| vm.task_state.is_some()).map(timestamp),
        overdue: overdue::is_said(state, vm),
        task_deadline: overdue::deadline(state, vm).map(timestamp),
        failing_over: of.failing_over,
        lost_host: of.lost_host.clone(),
        restarts: of.restarts,
        next_restart_at: of.next_restart_at.map(timestamp),
        leaving: of.vacate.as_ref().map(leaving),
        // One that is on is on its way there, or was placed elsewhere.
        moved_to: of
            .move_to
            .filter(|_| vm.power.want == WantPower::Off)
            .and_then(|node| state.nodes.get(&node))
            .map(|node| node.name.clone()),
        stopped_for_drain_of: of.stopped_for.map(|node| node_name(state, node)),
    }
}

pub fn fence(state: &State, fence: &Fence) -> api::Fence {
    let lost = fence.lost.iter().map(|(id, epoch)| api::LostVm {
        id: id.0,
        name: state.vms.contains_key(id).then(|| vm_name(state, *id)),
        epoch: epoch.0.0,
    });
    api::Fence { since: timestamp(fence.at), lost: lost.collect() }
}

/// The drain of a node, without the question where its VMs would go.
pub fn node_drain(state: &State, node: &Node) -> Option<api::NodeDrain> {
    let request = node.drain?;
    let left: Vec<&Vm> = state.vms_on(node.id).filter(|vm| may_run(vm)).collect();
    let names = |which: Availability| {
        let of = left.iter().filter(|vm| vm.spec.availability == which);
        of.map(|vm| vm_name(state, vm.id)).collect::<Vec<_>>()
    };
    Some(api::NodeDrain {
        since: timestamp(request.since),
        stop_timeout_s: request.stop_timeout_s,
        pinned: drain_pinned(request.pinned),
        done: drain::is_done(state, node, request),
        left_failover: names(Availability::Failover),
        left_pinned: names(Availability::Pinned),
    })
}

pub fn drain_pinned(pinned: DrainPinned) -> api::DrainPinned {
    match pinned {
        DrainPinned::Stop => api::DrainPinned::Stop,
        DrainPinned::Keep => api::DrainPinned::Keep,
    }
}

pub fn to_drain_pinned(pinned: api::DrainPinned) -> DrainPinned {
    match pinned {
        api::DrainPinned::Stop => DrainPinned::Stop,
        api::DrainPinned::Keep => DrainPinned::Keep,
    }
}

pub fn left_vm<'a>(state: &State, outlook: &Outlook<'a>, left: &Left<'a>) -> api::LeftVm {
    let next = match left.next {
        Next::Leaving => api::NextForVm::Leaving,
        Next::Moves { .. } => api::NextForVm::Moves,
        Next::Stuck => api::NextForVm::Stuck,
        Next::Stopping => api::NextForVm::Stopping,
        Next::Stops => api::NextForVm::Stops,
        Next::Kept => api::NextForVm::Kept,
    };
    let refusals = match left.next {
        Next::Stuck => {
            outlook.reasons(left).refusals.iter().map(|reason| host_reason(state, reason)).collect()
        }
        _ => Vec::new(),
    };
    let to = match left.next {
        Next::Moves { to } => Some(node_name(state, to)),
        _ => None,
    };
    let availability = availability(left.vm.spec.availability);
    api::LeftVm { name: vm_name(state, left.vm.id), id: left.vm.id.0, availability, next, to, refusals }
}

pub fn cluster_policy(state: &State) -> api::ClusterPolicy {
    let ClusterPolicy { lease_ttl_ms, margin_ms, autostart_wait_ms, longest_ttl_ms, revision } = state.policy;
    let bounded = |value, least, most| api::Bounded { value, least, most };
    api::ClusterPolicy {
        lease_ttl_ms: bounded(lease_ttl_ms, LEASE_TTL_MS_MIN, LEASE_TTL_MS_MAX),
        margin_ms: bounded(margin_ms, MARGIN_MS_MIN, MARGIN_MS_MAX),
        autostart_wait_ms: bounded(autostart_wait_ms, 0, AUTOSTART_WAIT_MS_MAX),
        fence_after_ms: longest_ttl_ms.saturating_add(margin_ms),
        fences_at_once: fencing::at_once(state) as u64,
        failover_possible: state.nodes.len() >= FAILOVER_NODES_MIN,
        revision: revision.0,
    }
}

pub fn freeze(freeze: &Freeze) -> api::Freeze {
    api::Freeze {
        since: timestamp(freeze.since),
        until: timestamp(Timestamp(freeze.since.0.saturating_add(freeze.for_ms))),
        reason: freeze.reason.clone(),
        over: freeze.over,
        revision: freeze.revision.0,
    }
}
