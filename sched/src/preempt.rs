//! Preemption: which VMs to evict so that one of greater priority fits. Off unless the policy says so.
//!
//! On each host, all VMs that may be evicted are thought away; where the VM then passes every filter, they are put
//! back one after another as long as it still does: the greatest priority first, among equals those that run before
//! those that are off, the smaller before the larger. Who is left over is evicted (Kubernetes reprieves its victims
//! alike). Of several hosts, the one whose victims' greatest priority is least, then with fewest of them, then with
//! the least claimed by them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

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

/// Shapes that are known to fit nowhere.
const SHAPES_MAX: usize = 16;

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
    let mut without = Without::of(state, offered, withheld);
    // Few are remembered: comparing thousands with each other would cost more than asking again.
    let mut hopeless: VecDeque<&Vm> = VecDeque::new();
    for vm in waiting.iter().copied() {
        let waits = vm.spec.on_no_host == OnNoHost::Queue || vm.recovery.failing_over;
        let waits = waits && vm.batch.is_none();
        if !waits || hopeless.iter().any(|other| same_shape(other, vm)) || is_under_way(state, vm) {
            continue;
        }
        match best(&mut without, policy, &request(vm)) {
            Some(eviction) => return Some((vm.id, eviction)),
            None => hopeless.push_front(vm),
        }
        hopeless.truncate(SHAPES_MAX);
    }
    None
}

fn best(without: &mut Without<'_, '_>, policy: &Policy, request: &Request<'_>) -> Option<Eviction> {
    let filters = policy.applying(request);
    let passes = |host: &Host<'_>| filters.iter().all(|filter| filter.passes(request, host));
    // Where it fits once those have gone that leave anyway, there is nothing to do but wait.
    if without.withheld.iter().copied().any(passes) || without.leaving.iter().any(passes) {
        return None;
    }
    // A host is kept for one at a time: of what leaves one that is kept for somebody ahead, others would take the room.
    let may_have =
        |host: &Host<'_>| host.kept().is_none_or(|kept| queue::rank(request.vm) <= queue::rank(kept.vm));
    let apart = without.hosts_of_its_own(request.vm);
    let (state, offered) = (without.state, without.offered);
    let evictions = offered.iter().zip(without.victims(request.vm)).filter_map(|(host, emptied)| {
        let its_own = apart.contains(&host.id()).then(|| emptied_for(state, host, request.vm));
        let emptied = its_own.as_ref().unwrap_or(emptied).as_ref()?;
        (may_have(host) && passes(emptied)).then(|| on_host(state, request.vm, host, emptied, passes))?
    });
    evictions.min_by_key(|(rank, _)| *rank).map(|(_, eviction)| eviction)
}

/// Hosts as they would be without some of their VMs: worked out once for all that wait, since each may be asked about
/// for thousands of shapes.
struct Without<'h, 'a> {
    state: &'h State,
    offered: &'h [&'h Host<'a>],
    withheld: &'h [&'h Host<'a>],
    /// Hosts that some VMs leave, without these.
    leaving: Vec<Host<'a>>,
    /// Of those that are preemptible.
    priorities: BTreeSet<i32>,
    /// By the greatest priority that is evicted: each offered host without all that may be; none where nobody may be.
    emptied: Option<(Option<i32>, Vec<Option<Host<'a>>>)>,
}

impl<'h, 'a> Without<'h, 'a> {
    fn of(state: &'h State, offered: &'h [&'h Host<'a>], withheld: &'h [&'h Host<'a>]) -> Self {
        let left = |host: &&Host<'a>| {
            let mut leaving =
                state.vms_on(host.id()).filter(|other| other.recovery.vacate.is_some()).peekable();
            leaving.peek()?;
            let mut after = (*host).clone();
            leaving.for_each(|other| after.without(other));
            Some(after)
        };
        let scheduling = state.vms.values().map(|vm| &vm.spec.scheduling);
        Self {
            state,
            offered,
            withheld,
            leaving: offered.iter().chain(withheld).filter_map(left).collect(),
            priorities: scheduling.filter(|one| one.preemptible).map(|one| one.priority).collect(),
            emptied: None,
        }
    }

    /// Each offered host without whom a VM of this priority may have evicted, were it in no group and with nobody.
    fn victims(&mut self, vm: &Vm) -> &[Option<Host<'a>>] {
        let greatest = self.priorities.range(..vm.spec.scheduling.priority).next_back().copied();
        if self.emptied.as_ref().is_none_or(|(of, _)| *of != greatest) {
            let mut alone = vm.clone();
            alone.spec.scheduling.group = None;
            alone.spec.scheduling.same_host.clear();
            let emptied = self.offered.iter().map(|host| emptied_for(self.state, host, &alone)).collect();
            self.emptied = Some((greatest, emptied));
        }
        self.emptied.as_ref().map(|(_, emptied)| emptied.as_slice()).unwrap_or_default()
    }

    /// Hosts of VMs that it may not have evicted because they are of its group, or wanted beside it.
    fn hosts_of_its_own(&self, vm: &Vm) -> BTreeSet<NodeId> {
        let scheduling = &vm.spec.scheduling;
        let members = scheduling.group.and_then(|group| self.state.group_members.get(&group));
        let spared = members.into_iter().flatten().chain(&scheduling.same_host);
        spared.filter_map(|id| self.state.vms.get(id)?.claim.as_ref()).map(|claim| claim.node).collect()
    }
}

/// `host` without those that leave it and those that `vm` may have evicted; none where there are none of these.
fn emptied_for<'a>(state: &State, host: &Host<'a>, vm: &Vm) -> Option<Host<'a>> {
    let goes = |other: &&Vm| other.recovery.vacate.is_some() || may_evict(vm, other).is_ok();
    let is_victim = |other: &Vm| other.recovery.vacate.is_none() && may_evict(vm, other).is_ok();
    state.vms_on(host.id()).any(is_victim).then(|| {
        let mut emptied = host.clone();
        state.vms_on(host.id()).filter(goes).for_each(|other| emptied.without(other));
        emptied
    })
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

/// Whom of `host`, which would do if all that may were evicted.
fn on_host(
    state: &State,
    vm: &Vm,
    host: &Host<'_>,
    emptied: &Host<'_>,
    passes: impl Fn(&Host<'_>) -> bool,
) -> Option<(Rank, Eviction)> {
    let is_victim = |other: &&Vm| other.recovery.vacate.is_none() && may_evict(vm, other).is_ok();
    let mut victims: Vec<&Vm> = state.vms_on(host.id()).filter(is_victim).collect();
    let mut emptied = emptied.clone();
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
        if passes(&with) {
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
