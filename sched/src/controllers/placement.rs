//! Places the waiting VMs in the order of the queue by the replicated policy, in one `PlaceVms`, or where there are atomic
//! batches among them, in one for each and for those between; for those
//! that fit nowhere it records why, when that is news, keeps hosts or has VMs of lesser priority evicted where the
//! policy says so, and gives up on those that would not wait or have waited too long.

mod rest;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use holm_model::command::{self, Choice, Command, NoHost, PlaceVms, PreemptVms};
use holm_model::id::Revision;
use holm_model::vm::{HostReason, OnNoHost, StopMode, Vm};
use holm_model::{NodeId, State, Timestamp, VmId};

use super::node_health::UP_BELOW_MS;
use crate::controller::{Controller, Facts, Rest};
use crate::policy::Policy;
use crate::preempt::Eviction;
use crate::select::{Batch, Reasons};
use crate::{queue, request, steady};

/// Most `NoHost` of one decision; the rest follows in the next. Reasons that changed are recorded again for so many at
/// the front of the queue only: a node that goes down is news for thousands, and each would be written.
pub const NO_HOST_MAX: usize = 100;

/// Most VMs, or batches, that one decision says something new of: those of whom the same is said share an entry.
pub const TOLD_MAX: usize = 1_000;

/// How long an evicted guest may take to shut down before it is powered off, in seconds; Kubernetes' grace period.
pub const EVICTION_STOP_S: u32 = 30;

/// A VM that lost its node is tried again, so long after it last failed to build: on hosts where it was not yet, or where
/// there are none, on all: what ailed it may be over, and nobody may be there to ask. Doubled each time,
/// [`RETRY_DOUBLINGS`] times.
pub const RETRY_PAUSE_MS: u64 = 60_000;
/// Up to half an hour.
pub const RETRY_DOUBLINGS: u32 = 5;

/// Shapes whose refusals are kept during a decision.
const SHAPES_MAX: usize = 16;

/// The scheduler.
#[derive(Clone, Copy, Debug, Default)]
pub struct Placement;

impl Controller for Placement {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn decide(&self, state: &State, facts: &Facts) -> Vec<Command> {
        let Some(leadership) = state.leadership else { return Vec::new() };
        if state.waiting.is_empty() {
            return Vec::new();
        }
        let leadership = leadership.revision;
        let policy = Policy::of(&state.scheduler);
        let withheld = doubtful(facts);
        let held = steady::held_back(state, &policy, &withheld);
        let offered = steady::without(state, held.keys());
        let queue::Run { placements, unplaced, short, batch } = queue::run(&offered, &policy, &withheld);
        let batch_of = |placement: &command::Placement| state.vms.get(&placement.vm).and_then(|vm| vm.batch);
        let mut commands: Vec<Command> = placements
            .chunk_by(|a, b| batch_of(a) == batch_of(b))
            .map(|some| PlaceVms {
                leadership,
                placements: some.to_vec(),
                atomic: batch_of(&some[0]).is_some(),
            })
            .map(Command::PlaceVms)
            .take(steady::entries_max(state))
            .collect();
        if unplaced.is_empty() && held.is_empty() {
            return commands;
        }
        let eviction = batch.eviction(&unplaced).filter(|(vm, of)| steady::may_evict(&offered, *vm, of));
        let preempting = eviction.as_ref().map(|(vm, _)| *vm);
        let reservations = batch.reservations(&unplaced, facts.now);
        let build_timeout_ms = state.scheduler.build_timeout_ms();
        let mut said = Said::of(&batch, queue::no_choice(state, &withheld), build_timeout_ms, &short);
        // Of a batch, it is said of the first and meant for all.
        let first = queue::turns(&unplaced).map(|turn| turn[0]);
        let no_hosts = first.enumerate().filter_map(|(place, vm)| {
            let kept = vm.reserved.as_ref().map(|reserved| reserved.node);
            // A node is kept with the eviction.
            let reserve = if preempting == Some(vm.id) { kept } else { reservations.get(&vm.id).copied() };
            let in_front = place < NO_HOST_MAX;
            said.no_host(leadership, facts.now, vm, reserve, in_front)
        });
        commands.extend(joined(no_hosts));
        let held = held.into_iter().filter_map(|(id, why)| Some((state.vms.get(&id)?, why)));
        let held = held.filter_map(|(vm, why)| said.held_back(leadership, facts.now, vm, why));
        commands.extend(joined(held));
        commands.extend(eviction.map(|(vm, eviction)| {
            let Eviction { node, victims } = eviction;
            let stop = StopMode::Graceful { timeout_s: EVICTION_STOP_S };
            Command::PreemptVms(PreemptVms { leadership, vm, node, victims, stop })
        }));
        commands
    }

    fn rests_until(&self, state: &State, facts: &Facts) -> Option<Timestamp> {
        Some(rest::until(state, facts.now))
    }

    fn sees_the_same(&self, rest: &Rest, state: &State, facts: &Facts) -> bool {
        doubtful(&rest.facts) == doubtful(facts) && rest::is_same(&rest.state, state)
    }
}

/// Nodes that may be dead, though it is too early to call them down: a VM placed there would wait for them.
pub(super) fn doubtful(facts: &Facts) -> BTreeSet<NodeId> {
    let silent = facts.silent_ms.iter().filter(|(_, ms)| **ms > UP_BELOW_MS).map(|(node, _)| *node);
    facts.unheard.iter().copied().chain(silent).collect()
}

/// Reasons, said once for all VMs of a shape: thousands may wait for the same.
struct Said<'b, 'a> {
    batch: &'b Batch<'a>,
    /// What is recorded of each.
    choice: Choice,
    build_timeout_ms: u64,
    /// Of atomic batches.
    short: &'b BTreeMap<VmId, Reasons>,
    /// Not where hosts are kept: there the answer depends on the place in the queue too.
    shared: bool,
    /// The latest last.
    by_shape: VecDeque<(&'a Vm, Rc<Reasons>)>,
}

impl<'b, 'a> Said<'b, 'a> {
    fn of(
        batch: &'b Batch<'a>,
        choice: Choice,
        build_timeout_ms: u64,
        short: &'b BTreeMap<VmId, Reasons>,
    ) -> Self {
        let (shared, by_shape) = (!batch.keeps_hosts(), VecDeque::new());
        Self { batch, choice, build_timeout_ms, short, shared, by_shape }
    }

    fn reasons(&mut self, vm: &'a Vm) -> Rc<Reasons> {
        if let Some(reasons) = vm.batch.and_then(|batch| self.short.get(&batch)) {
            return Rc::new(reasons.clone());
        }
        let same = |(other, _): &&(&Vm, Rc<Reasons>)| self.shared && request::same_shape(other, vm);
        if let Some((_, reasons)) = self.by_shape.iter().rev().find(same) {
            return Rc::clone(reasons);
        }
        let reasons = Rc::new(self.batch.reasons(vm));
        if self.by_shape.len() == SHAPES_MAX {
            self.by_shape.pop_front();
        }
        self.by_shape.push_back((vm, Rc::clone(&reasons)));
        reasons
    }

    /// What to record about a VM that fits nowhere, if anything.
    fn no_host(
        &mut self,
        leadership: Revision,
        now: Timestamp,
        vm: &'a Vm,
        reserve: Option<NodeId>,
        in_front: bool,
    ) -> Option<NoHost> {
        let give_up = gives_up(vm, now, self.build_timeout_ms);
        let retry = is_to_retry(vm, now);
        let must = give_up || retry || vm.reserved.as_ref().map(|reserved| reserved.node) != reserve;
        let told = !vm.refusals.is_empty();
        if told && !in_front && !must {
            return None;
        }
        if self.batch.fits_withheld(vm) && !waited_too_long(vm, now, self.build_timeout_ms) {
            // Within seconds that host is heard and takes it, or is down and refuses it.
            return None;
        }
        let reasons = self.reasons(vm);
        let news = must || differ(&reasons, vm);
        let no_host = self.entry(leadership, vm, reasons.as_ref().clone());
        news.then_some(NoHost { give_up, reserve, retry, ..no_host })
    }
}

/// In one entry each for those of whom the same is said.
fn joined(no_hosts: impl Iterator<Item = NoHost>) -> impl Iterator<Item = Command> {
    let mut entries: Vec<NoHost> = Vec::new();
    for no_host in no_hosts.take(TOLD_MAX) {
        match entries.iter().position(|entry| says_the_same(entry, &no_host)) {
            Some(at) => entries[at].also.push(no_host.vm),
            None if entries.len() == NO_HOST_MAX => break,
            None => entries.push(no_host),
        }
    }
    entries.into_iter().map(Command::NoHost)
}

/// Of two of one decision.
fn says_the_same(a: &NoHost, b: &NoHost) -> bool {
    let how = |c: &NoHost| (c.give_up, c.retry, c.reserve, c.batch);
    how(a) == how(b) && a.counts == b.counts && a.refusals == b.refusals
}

impl Said<'_, '_> {
    fn entry(&self, leadership: Revision, vm: &Vm, reasons: Reasons) -> NoHost {
        let Reasons { counts, refusals, batch } = reasons;
        let (give_up, reserve, retry, choice) = (false, None, false, Some(self.choice.clone()));
        let (vm, also) = (vm.id, Vec::new());
        NoHost { leadership, vm, refusals, give_up, counts, reserve, retry, choice, batch, also }
    }

    /// What to record about a VM that fits, but is held back, if that is news.
    fn held_back(&self, leadership: Revision, now: Timestamp, vm: &Vm, why: HostReason) -> Option<NoHost> {
        let give_up = gives_up(vm, now, self.build_timeout_ms);
        let counts = [(why.by.clone(), 1)].into();
        let reasons = Reasons { counts, refusals: vec![why], batch: None };
        let news = give_up || vm.reserved.is_some() || differ(&reasons, vm);
        let no_host = self.entry(leadership, vm, reasons);
        news.then_some(NoHost { give_up, ..no_host })
    }
}

fn gives_up(vm: &Vm, now: Timestamp, build_timeout_ms: u64) -> bool {
    if vm.recovery.failing_over {
        // Nobody may be there to ask again for one that lost its node.
        return false;
    }
    match vm.spec.on_no_host {
        OnNoHost::Fail => true,
        OnNoHost::Queue => waited_too_long(vm, now, build_timeout_ms),
    }
}

fn is_to_retry(vm: &Vm, now: Timestamp) -> bool {
    let paused = vm.waiting_since.is_some_and(|since| now.since_ms(since) >= retry_pause_ms(vm));
    // A round that found no host left to try ends at once.
    vm.recovery.failing_over && !vm.excluded.is_empty() && (paused || vm.failed_this_round() == 0)
}

fn retry_pause_ms(vm: &Vm) -> u64 {
    RETRY_PAUSE_MS << vm.recovery.build_rounds.min(RETRY_DOUBLINGS)
}

fn waited_too_long(vm: &Vm, now: Timestamp, build_timeout_ms: u64) -> bool {
    vm.waiting_since.is_some_and(|since| now.since_ms(since) >= build_timeout_ms)
}

/// Whether another rule refuses on some host than the record says, or on another number of hosts. Numbers within a
/// message are not compared: free amounts change with every placement, and recording each change for every waiting VM
/// would write more than it tells. `explain` has the current numbers.
fn differ(now: &Reasons, vm: &Vm) -> bool {
    fn rule(reason: &HostReason) -> (NodeId, &str, Option<&str>) {
        (reason.node, &reason.by, reason.message.split(':').next())
    }
    let recorded = &vm.refusals;
    now.refusals.len() != recorded.len()
        || now.refusals.iter().zip(recorded).any(|(a, b)| rule(a) != rule(b))
        || vm.fault.as_ref().is_none_or(|fault| fault.message != now.message())
}
