//! The interleavings that people think of: for each rule, what happens without it, step by step. A walk
//! often begins with one of these, changed at random, and so searches round the places where it hurts.

use super::action::Action;
use super::replicated::{Availability, NodeIx};
use super::world::{MESSAGES, PROPOSALS};

const A: NodeIx = 0;
const B: NodeIx = 1;

/// One of them: the rules it needs to be left out, how the VM is asked for, and the steps; those that are
/// not possible are skipped.
pub type Interleaving = (&'static str, Availability, Vec<Action>);

/// `node` has applied whatever is committed.
pub fn catch_up(node: NodeIx) -> Vec<Action> {
    vec![Action::Apply(node); 24]
}

/// Whatever is proposed is committed.
pub fn commit() -> Vec<Action> {
    (0..PROPOSALS).rev().map(Action::Commit).collect()
}

/// `leader` is elected and serves.
pub fn lead(leader: NodeIx) -> Vec<Action> {
    [vec![Action::Elect(leader), Action::CommitBegin(leader)], catch_up(leader)].concat()
}

/// A heartbeat of `node` reaches `leader`.
pub fn beat(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    let arrive = (0..MESSAGES).map(|slot| Action::DeliverHeartbeat(node, slot, leader));
    [Action::SendHeartbeat(node)].into_iter().chain(arrive).collect()
}

/// `leader` sends what it may, and it arrives.
pub fn grant(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    let arrive = (0..MESSAGES).rev().map(|slot| Action::DeliverGrant(node, slot));
    [Action::SendGrant(leader, node)].into_iter().chain(arrive).collect()
}

/// `node` gets a lease, or a longer one.
pub fn lease(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    let round = vec![Action::BeginRound(leader), Action::ConfirmRound(leader)];
    [beat(node, leader), round, grant(node, leader)].concat()
}

/// The leader places the VM on `node`.
pub fn place(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    [vec![Action::DecidePlace(leader, node)], commit(), catch_up(leader)].concat()
}

/// `node` starts the VM, as far as its replica lets it.
pub fn start(node: NodeIx) -> Vec<Action> {
    vec![Action::DecideStart(node), Action::Exec(node), Action::ShimStarts(node)]
}

/// The leader fences `node`.
pub fn fence(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    [vec![Action::DecideFence(leader, node)], commit(), catch_up(leader)].concat()
}

/// The VM is placed on `node`, which starts it.
pub fn run(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    [place(node, leader), lease(node, leader), catch_up(node), start(node)].concat()
}

/// `node` reports that nothing lost lives, and is let back.
pub fn unfence(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    [catch_up(node), vec![Action::ReportClean(node)], commit(), catch_up(leader)].concat()
}

/// The user asks for failover, and `node` makes it so.
pub fn to_failover(node: NodeIx, leader: NodeIx) -> Vec<Action> {
    let request = vec![Action::Request(Availability::Failover)];
    let report = vec![Action::Arm(node), Action::ReportFailover(node)];
    [request, catch_up(node), lease(node, leader), report].concat()
}

fn ticks(count: usize) -> Vec<Action> {
    vec![Action::Tick; count]
}

/// Every interleaving.
pub fn every() -> Vec<Interleaving> {
    let failover = [
        ("4a", restarted_leader()),
        ("4b", decision_of_an_earlier_leadership()),
        ("5", superseded_leader_grants()),
        ("6a", superseded_leader_grants()),
        ("7b", fenced_during_the_round()),
        ("8a", fenced_while_granted()),
        ("8b", [lead(A), run(A, A), lead(B), fence(A, B), run(B, B)].concat()),
        ("11a", back_from_a_fence_with_an_old_replica()),
        ("15", lease_file_of_the_last_boot()),
        ("16,23", shim_that_was_forgotten()),
        ("16,20", back_too_early()),
    ];
    let pinned = [
        ("12c", report_for_an_older_request()),
        ("12d", freed_by_an_old_replica()),
        ("12e", started_unbound_by_an_old_replica()),
        ("13a", started_again_after_it_was_given_back()),
        ("14b", mark_deleted_first()),
    ];
    let of = |availability| move |(rules, steps)| (rules, availability, steps);
    let failover = failover.into_iter().map(of(Availability::Failover));
    failover.chain(pinned.into_iter().map(of(Availability::Pinned))).collect()
}

fn restarted_leader() -> Vec<Action> {
    let moved = [lead(A), run(B, A), ticks(5), fence(B, A), run(A, A)].concat();
    let restarted = vec![Action::Crash(A), Action::Restart(A, 2)];
    [moved, restarted, lease(B, A), start(B)].concat()
}

fn decision_of_an_earlier_leadership() -> Vec<Action> {
    let decided = [lead(A), run(B, A), ticks(5), vec![Action::DecideFence(A, B)]].concat();
    let meanwhile = [lead(B), lease(B, B), catch_up(B), start(B)].concat();
    [decided, meanwhile, lead(A), commit(), catch_up(A), run(A, A)].concat()
}

fn superseded_leader_grants() -> Vec<Action> {
    let round = [beat(B, A), vec![Action::BeginRound(A), Action::ConfirmRound(A)]].concat();
    let alone = |count| [ticks(count), beat(A, A), grant(A, A)].concat();
    [lead(A), run(A, A), round, lead(B), alone(2), alone(2), ticks(1), fence(A, B), run(B, B)].concat()
}

fn fenced_during_the_round() -> Vec<Action> {
    let begun = [lead(A), run(B, A), ticks(5), beat(B, A), vec![Action::BeginRound(A)]].concat();
    let granted = [vec![Action::ConfirmRound(A)], grant(B, A), start(B)].concat();
    [begun, fence(B, A), granted, run(A, A)].concat()
}

fn fenced_while_granted() -> Vec<Action> {
    let renewed = [ticks(2), lease(B, A)].concat();
    [lead(A), run(B, A), renewed.clone(), renewed.clone(), renewed, fence(B, A), run(A, A)].concat()
}

fn back_from_a_fence_with_an_old_replica() -> Vec<Action> {
    let away = [lead(A), run(B, A), ticks(5), fence(B, A), unfence(B, A), run(A, A)].concat();
    [away, vec![Action::Crash(B), Action::Restart(B, 1)], lease(B, A), start(B)].concat()
}

fn lease_file_of_the_last_boot() -> Vec<Action> {
    let up = [ticks(2), lease(B, A)].concat();
    let reboot = vec![Action::PowerOff(B), Action::PowerOn(B), Action::Restart(B, 0)];
    let again = [lease(B, A), start(B), ticks(5)].concat();
    [lead(A), run(B, A), up.clone(), up.clone(), up, reboot, again, fence(B, A), run(A, A)].concat()
}

fn shim_that_was_forgotten() -> Vec<Action> {
    let mut pending = [lead(A), run(B, A)].concat();
    pending.retain(|action| !matches!(action, Action::ShimStarts(_)));
    let forgotten = vec![Action::Crash(B), Action::Restart(B, 0)];
    let back = [ticks(5), fence(B, A), unfence(B, A), lease(B, A), run(A, A)].concat();
    [pending, forgotten, back, vec![Action::ShimStarts(B)]].concat()
}

fn back_too_early() -> Vec<Action> {
    let mut pending = [lead(A), run(B, A)].concat();
    pending.retain(|action| !matches!(action, Action::ShimStarts(_)));
    let back = [ticks(5), fence(B, A), unfence(B, A), lease(B, A), run(A, A)].concat();
    [pending, back, vec![Action::ShimStarts(B)]].concat()
}

fn report_for_an_older_request() -> Vec<Action> {
    let there = [lead(A), run(B, A), to_failover(B, A)].concat();
    let back = vec![Action::Request(Availability::Pinned)];
    let freed = [catch_up(B), vec![Action::Disarm(B), Action::Unbind(B)]].concat();
    let again = [vec![Action::Request(Availability::Failover)], commit(), catch_up(A)].concat();
    [there, back, freed, again, ticks(5), fence(B, A), run(A, A)].concat()
}

fn freed_by_an_old_replica() -> Vec<Action> {
    let there = [lead(A), run(B, A), to_failover(B, A), commit()].concat();
    let old = vec![Action::Crash(B), Action::Restart(B, 1), Action::Disarm(B)];
    [there, old, ticks(5), fence(B, A), run(A, A)].concat()
}

fn started_unbound_by_an_old_replica() -> Vec<Action> {
    let there = [lead(A), run(B, A), to_failover(B, A), commit()].concat();
    let old = [vec![Action::VmmExits(B), Action::Crash(B), Action::Restart(B, 1)], ticks(5)].concat();
    [there, old, start(B), fence(B, A), run(A, A)].concat()
}

fn started_again_after_it_was_given_back() -> Vec<Action> {
    let given_back = vec![Action::MarkReleased(B), Action::ProposeRelease(B)];
    let gone = [commit(), catch_up(B), vec![Action::DeleteDirectory(B)], catch_up(A), run(A, A)].concat();
    let old = [vec![Action::Crash(B), Action::Restart(B, 1)], ticks(3), start(B)].concat();
    [lead(A), place(B, A), catch_up(B), given_back, gone, old].concat()
}

fn mark_deleted_first() -> Vec<Action> {
    let mut steps = started_again_after_it_was_given_back();
    for step in &mut steps {
        if let Action::DeleteDirectory(node) = *step {
            *step = Action::ForgetMark(node);
        }
    }
    steps
}
