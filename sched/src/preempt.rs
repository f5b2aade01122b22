//! Preemption: which VMs to evict so that one of greater priority fits. Off unless the policy says so.
//!
//! On each host, all VMs that may be evicted are thought away; where the VM then passes every filter, they are put
//! back one after another as long as it still does: the greatest priority first, among equals those that run before
//! those that are off, the smaller before the larger. Who is left over is evicted (Kubernetes reprieves its victims
//! alike). Of several hosts, the one whose victims' greatest priority is least, then with fewest of them, then with
//! the least claimed by them.

use std::cmp::Reverse;

use holm_model::feasible::may_evict;
use holm_model::vm::{OnNoHost, Vm, WantPower};
use holm_model::{NodeId, ResourceClass, State, VmId};
use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::policy::Policy;
use crate::queue;
use crate::request::{Request, same_shape};
use crate::shape::draw;

/// Who would leave which node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    pub node: NodeId,
    /// Those that go first have the greatest priority.
    pub victims: Vec<VmId>,
}

/// What the choice of a host is ranked by; the least is best.
type Rank = (i32, usize, u64, Reverse<u64>);

/// Whom to evict for the first of `waiting`, in the order of the queue, that fits on none of the hosts and would on an
/// offered one after an eviction. A withheld host counts with its room: within seconds it is heard, or down, and no
/// disk is thrown away for seconds. One at a time: the next decision sees what became of it.
pub fn choose<'a>(
    state: &State,
    policy: &Policy,
    waiting: &[&'a Vm],
    request: impl Fn(&'a Vm) -> Request<'a>,
    offered: &[&Host<'_>],
    withheld: &[&Host<'_>],
) -> Option<(VmId, Eviction)> {
    if !state.scheduler.preemption {
        return None;
    }
    let mut hopeless: Vec<&Vm> = Vec::new();
    for vm in waiting.iter().copied() {
        let waits = vm.spec.on_no_host == OnNoHost::Queue || vm.recovery.failing_over;
        let waits = waits && vm.batch.is_none();
        if !waits || hopeless.iter().any(|other| same_shape(other, vm)) || is_under_way(state, vm) {
            continue;
        }
        match best(state, policy, &request(vm), offered, withheld) {
            Some(eviction) => return Some((vm.id, eviction)),
            None => hopeless.push(vm),
        }
    }
    None
}

fn best(
    state: &State,
    policy: &Policy,
    request: &Request<'_>,
    offered: &[&Host<'_>],
    withheld: &[&Host<'_>],
) -> Option<Eviction> {
    // Where it fits once those have gone that leave anyway, there is nothing to do but wait.
    let fits_soon = |host: &&Host<'_>| {
        let mut leaving = state.vms_on(host.id()).filter(|other| other.recovery.vacate.is_some()).peekable();
        leaving.peek().is_some() && {
            let mut after = (*host).clone();
            leaving.for_each(|other| after.without(other));
            policy.passes(request, &after)
        }
    };
    let fits_withheld = withheld.iter().any(|host| policy.passes(request, host));
    if fits_withheld || offered.iter().chain(withheld).any(fits_soon) {
        return None;
    }
    // A host is kept for one at a time: of what leaves one that is kept for somebody ahead, others would take the room.
    let may_have =
        |host: &&&Host<'_>| host.kept().is_none_or(|kept| queue::rank(request.vm) <= queue::rank(kept.vm));
    let evictions = offered.iter().filter(may_have).filter_map(|host| on_host(state, policy, request, host));
    evictions.min_by_key(|(rank, _)| *rank).map(|(_, eviction)| eviction)
}

/// Whether a VM that was evicted for `vm` has not left yet.
fn is_under_way(state: &State, vm: &Vm) -> bool {
    let Some(reserved) = &vm.reserved else { return false };
    let leaves = |id: &VmId| {
        let victim = state.vms.get(id)?;
        let claim = victim.claim.as_ref().filter(|claim| claim.node == reserved.node)?;
        victim.recovery.vacate.as_ref().map(|_| claim)
    };
    reserved.evicted.iter().any(|id| leaves(id).is_some())
}

fn on_host(
    state: &State,
    policy: &Policy,
    request: &Request<'_>,
    host: &Host<'_>,
) -> Option<(Rank, Eviction)> {
    let vm = request.vm;
    let mut emptied = host.clone();
    let mut victims: Vec<&Vm> = Vec::new();
    for other in state.vms_on(host.id()) {
        if other.recovery.vacate.is_some() {
            emptied.without(other);
        } else if may_evict(vm, other).is_ok() {
            emptied.without(other);
            victims.push(other);
        }
    }
    if victims.is_empty() || !policy.passes(request, &emptied) {
        return None;
    }
    let off = |victim: &Vm| victim.power.want == WantPower::Off;
    victims.sort_by_key(|victim| {
        (
            Reverse(victim.spec.scheduling.priority),
            off(victim),
            size(host, victim),
            victim.created_at,
            victim.id,
        )
    });
    let mut evicted = Vec::new();
    for victim in victims {
        let mut with = emptied.clone();
        with.put_back(victim);
        if policy.passes(request, &with) {
            emptied = with;
        } else {
            evicted.push(victim);
        }
    }
    let priority = evicted.first()?.spec.scheduling.priority;
    let sizes = evicted.iter().map(|victim| size(host, victim)).sum();
    let rank = (priority, evicted.len(), sizes, Reverse(draw(vm.id, host.id())));
    Some((rank, Eviction { node: host.id(), victims: evicted.iter().map(|victim| victim.id).collect() }))
}

/// What a VM takes of its host, in thousandths of each class.
fn size(host: &Host<'_>, vm: &Vm) -> u64 {
    let share = |(class, amount): (&ResourceClass, &u64)| {
        let capacity = host.node.inventory.get(class).map_or(0, |inventory| inventory.capacity());
        amount.saturating_mul(1000) / capacity.max(1)
    };
    vm.claim.iter().flat_map(|claim| &claim.resources.0).map(share).fold(0, u64::saturating_add)
}
