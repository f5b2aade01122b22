//! Empties nodes that are being drained. Failover VMs leave a few at a time, each only while placement finds a
//! host for it now; one that fits nowhere stays and runs on. A group that is kept on one host leaves it as a whole, or
//! not at all. Pinned VMs are stopped, those that start last
//! first, or kept, as the drain says. Nothing is remembered: the records say what is under way, so a drain
//! goes on under the next leader, and a cancelled one simply ends.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use holm_model::command::{Command, StopForDrain, VacateVms};
use holm_model::group::{GroupPolicy, ServerGroup};
use holm_model::node::{Drain as Request, DrainPinned, Node};
use holm_model::vm::{Availability, HostReason, ObservedState, StopMode, Vm, VmStatus, WantPower};
use holm_model::{GroupId, NodeId, State, VmId};

use super::placement::doubtful;
use crate::advice::Gathered;
use crate::controller::{Controller, Facts};
use crate::policy::Policy;
use crate::queue;
use crate::select::{Batch, REASONS_MAX, Reasons};
use crate::shape::Chosen;

/// VMs of one node that leave at the same time: each writes its disk anew somewhere.
pub const MOVES_AT_ONCE: usize = 4;
/// VMs of one node that are shut down at the same time.
pub const STOPS_AT_ONCE: usize = 8;

/// Empties nodes.
#[derive(Clone, Copy, Debug)]
pub struct Drain;

/// A VM that still runs, or may run, on a node that is being drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left<'a> {
    pub vm: &'a Vm,
    pub node: NodeId,
    pub next: Next,
}

/// What becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is being moved, or deleted.
    Leaving,
    /// It leaves when those before it have; this host has room for it now.
    Moves { to: NodeId },
    /// It fits on no other host.
    Stuck,
    /// It is being shut down.
    Stopping,
    /// It is shut down when those before it are off.
    Stops,
    /// It runs on.
    Kept,
}

impl Controller for Drain {
    fn name(&self) -> &'static str {
        "drain"
    }

    fn decide(&self, state: &State, facts: &Facts) -> Vec<Command> {
        let Some(leadership) = state.leadership else { return Vec::new() };
        let draining: Vec<_> =
            draining(state).filter(|(node, request)| node.up && !is_done(state, node, *request)).collect();
        if draining.is_empty() {
            return Vec::new();
        }
        let policy = Policy::of(&state.scheduler);
        let outlook = Outlook::new(state, &policy, &doubtful(facts));
        let mut commands = Vec::new();
        for (node, request) in draining {
            let of_node: Vec<_> = outlook.left.iter().filter(|left| left.node == node.id).collect();
            let vms = due_to_move(state, &of_node);
            if !vms.is_empty() {
                commands.push(Command::VacateVms(VacateVms {
                    leadership: leadership.revision,
                    vms,
                    reason: format!("drain of {}", node.name),
                    stop: StopMode::Graceful { timeout_s: request.stop_timeout_s },
                }));
            }
            let vms = due_to_stop(&of_node);
            if !vms.is_empty() {
                let vms = vms.into_iter().map(|vm| vm.id).collect();
                commands.push(Command::StopForDrain(StopForDrain { leadership: leadership.revision, vms }));
            }
        }
        commands
    }
}

/// What is left on the nodes that are being drained, and what becomes of it.
pub struct Outlook<'a> {
    /// In the order in which they go.
    pub left: Vec<Left<'a>>,
    state: &'a State,
    batch: Batch<'a>,
}

impl<'a> Outlook<'a> {
    /// Those that wait for a host, and those that leave one already, are given their room first.
    pub fn new(state: &'a State, policy: &'a Policy, withheld: &BTreeSet<NodeId>) -> Self {
        let mut batch = queue::run(state, policy, withheld).batch;
        let groups = leaving_groups(state);
        batch.leave(groups.values().flatten().map(|vm| vm.id));
        for vm in state.vms.values().filter(|vm| vm.claim.is_some() && vm.recovery.vacate.is_some()) {
            batch.place(vm);
        }
        let mut vms: Vec<_> = draining(state)
            .flat_map(|(node, request)| state.vms_on(node.id).map(move |vm| (vm, node.id, request)))
            .filter(|(vm, ..)| may_run(vm))
            .collect();
        vms.sort_by_key(|(vm, ..)| {
            let of = &vm.spec;
            (Reverse(of.scheduling.priority), Reverse(of.policies.start_order), vm.created_at, vm.id)
        });
        let mut known = BTreeMap::new();
        let left = vms.into_iter().map(|(vm, node, request)| {
            let group = vm.spec.scheduling.group.and_then(|group| groups.get(&group));
            let next = match known.remove(&vm.id) {
                Some(next) => next,
                None if group.is_some() && vm.recovery.vacate.is_none() => {
                    let group = group.into_iter().flatten().copied();
                    known.extend(move_together(&mut batch, group.filter(|vm| vm.recovery.vacate.is_none())));
                    known.remove(&vm.id).unwrap_or(Next::Stuck)
                }
                None => next(&mut batch, vm, request),
            };
            Left { vm, node, next }
        });
        Self { left: left.collect(), state, batch }
    }

    /// Why hosts refuse a VM that is stuck, in the words of some.
    pub fn reasons(&self, left: &Left<'a>) -> Reasons {
        self.reasons_of(left, REASONS_MAX)
    }

    /// [`Outlook::reasons`] in the words of about `worded` hosts.
    pub(crate) fn reasons_of(&self, left: &Left<'a>, worded: usize) -> Reasons {
        let mut reasons = self.batch.reasons_of(left.vm, worded);
        if let Some(message) = held_back(self.state, left) {
            let held = HostReason { node: left.node, by: "ServerGroup".to_owned(), message };
            reasons.replace(held, self.batch.refusing(left.vm, left.node));
        }
        reasons
    }

    /// Gathers what to do about the other hosts that refuse it.
    pub(crate) fn advise(&self, left: &Left<'a>, without: &BTreeSet<NodeId>, gathered: &mut Gathered) {
        self.batch.advise(left.vm, without, gathered);
    }
}

/// Those of `group` that have not left, each with its host if there is room for all, one after another.
fn move_together<'a>(batch: &mut Batch<'a>, group: impl Iterator<Item = &'a Vm>) -> BTreeMap<VmId, Next> {
    let placed: Vec<_> = group.map(|vm| (vm.id, batch.place(vm))).collect();
    // Room that some would have had is not given back: seldom, and the next look begins anew.
    let all = placed.iter().all(|(_, chosen)| chosen.is_some());
    let next = |chosen: Option<Chosen>| match chosen.filter(|_| all) {
        Some(chosen) => Next::Moves { to: chosen.node },
        None => Next::Stuck,
    };
    placed.into_iter().map(|(vm, chosen)| (vm, next(chosen))).collect()
}

/// The members with a host of each group that must be on one host and leaves it: all of them do.
fn leaving_groups(state: &State) -> BTreeMap<GroupId, Vec<&Vm>> {
    let kept_together = state.groups.values().filter(|group| group.policy == GroupPolicy::Affinity);
    let leaving = kept_together.filter_map(|group| {
        let members: Vec<_> = with_host(state, group).collect();
        (!members.is_empty() && members.iter().all(|vm| goes(state, vm))).then_some((group.id, members))
    });
    leaving.collect()
}

fn with_host<'a>(state: &'a State, group: &ServerGroup) -> impl Iterator<Item = &'a Vm> {
    let members = state.group_members.get(&group.id).into_iter().flatten();
    members.filter_map(|id| state.vms.get(id)).filter(|vm| vm.claim.is_some())
}

/// Whether it is on its way from its host, or may leave one that is being drained.
fn goes(state: &State, vm: &Vm) -> bool {
    let drained = |node: NodeId| state.nodes.get(&node).is_some_and(|node| node.drain.is_some());
    let may_leave = leaves(vm) && vm.power.want == WantPower::On;
    vm.recovery.vacate.is_some() || (may_leave && vm.claim.as_ref().is_some_and(|claim| drained(claim.node)))
}

/// Who keeps a VM that could leave, in words.
fn held_back(state: &State, left: &Left<'_>) -> Option<String> {
    let group = state.groups.get(&left.vm.spec.scheduling.group?)?;
    let stay: Vec<&str> = with_host(state, group)
        .filter(|member| member.id != left.vm.id && !goes(state, member))
        .map(|member| member.name.as_str())
        .collect();
    if group.policy != GroupPolicy::Affinity || stay.is_empty() {
        return None;
    }
    let (group, stay) = (&group.name, stay.join(", "));
    Some(format!(
        "group `{group}` stays on one host, and {stay} cannot leave: `holm vm set NAME --availability failover` \
         lets a VM leave, a VM that is off must be started or deleted"
    ))
}

/// As many as may leave at once, and with each the rest of its group.
fn due_to_move(state: &State, of_node: &[&Left<'_>]) -> Vec<VmId> {
    let moving = of_node.iter().filter(|left| left.next == Next::Leaving).count();
    let moves: Vec<_> = of_node.iter().filter(|left| matches!(left.next, Next::Moves { .. })).collect();
    let together = |one: &Vm, other: &Vm| {
        let group = one.spec.scheduling.group.filter(|group| other.spec.scheduling.group == Some(*group));
        let group = group.and_then(|group| state.groups.get(&group));
        one.id == other.id || group.is_some_and(|group| group.policy == GroupPolicy::Affinity)
    };
    let mut due = Vec::new();
    for left in &moves {
        if due.contains(&left.vm.id) {
            continue;
        }
        if moving + due.len() >= MOVES_AT_ONCE {
            break;
        }
        due.extend(moves.iter().filter(|other| together(left.vm, other.vm)).map(|other| other.vm.id));
    }
    due
}

fn draining(state: &State) -> impl Iterator<Item = (&Node, Request)> {
    state.nodes.values().filter_map(|node| Some((node, node.drain?)))
}

/// Whether a VMM of it may be alive on its node, as far as its record tells.
pub fn may_run(vm: &Vm) -> bool {
    let ended = |state: &ObservedState| {
        matches!(state, ObservedState::Stopped | ObservedState::GuestOff | ObservedState::Failed { .. })
    };
    vm.power.want == WantPower::On || !vm.observed.as_ref().is_some_and(|observed| ended(&observed.state))
}

/// Whether nothing of what was to leave may run there any more.
pub fn is_done(state: &State, node: &Node, request: Request) -> bool {
    state.vms_on(node.id).filter(|vm| may_run(vm)).all(|vm| is_kept(vm, request))
}

fn is_kept(vm: &Vm, request: Request) -> bool {
    let goes =
        vm.recovery.vacate.is_some() || vm.status == VmStatus::Deleting || vm.power.want == WantPower::Off;
    request.pinned == DrainPinned::Keep && !goes && !leaves(vm)
}

/// Whether it may be placed elsewhere.
fn leaves(vm: &Vm) -> bool {
    vm.spec.availability == Availability::Failover && vm.spec.is_movable()
}

fn next<'a>(batch: &mut Batch<'a>, vm: &'a Vm, request: Request) -> Next {
    if is_kept(vm, request) {
        Next::Kept
    } else if vm.recovery.vacate.is_some() || vm.status == VmStatus::Deleting {
        Next::Leaving
    } else if vm.power.want == WantPower::Off {
        Next::Stopping
    } else if leaves(vm) {
        batch.place(vm).map_or(Next::Stuck, |chosen| Next::Moves { to: chosen.node })
    } else {
        Next::Stops
    }
}

/// The reverse of the order in which a host starts them: those that start last go first, equal ones
/// together, and the next only when they are off.
fn due_to_stop<'a>(of_node: &[&Left<'a>]) -> Vec<&'a Vm> {
    let order = |left: &&&Left<'a>| left.vm.spec.policies.start_order;
    let stopping = of_node.iter().filter(|left| left.next == Next::Stopping);
    let stops = of_node.iter().filter(|left| left.next == Next::Stops);
    let Some(last) = stopping.clone().chain(stops.clone()).map(|left| order(&left)).max() else {
        return Vec::new();
    };
    let room = STOPS_AT_ONCE.saturating_sub(stopping.count());
    stops.filter(|left| order(left) == last).take(room).map(|left| left.vm).collect()
}
