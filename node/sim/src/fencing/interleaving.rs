//! The interleavings that people think of: for each rule, what happens without it, step by step. A walk
//! often begins with one of these, changed at random, and so searches round the places where it hurts.

use super::action::Action;
use super::piece::{
    beat, catch_up, commit, fence, grant, lead, lease, place, run, start, ticks, to_failover, unfence,
};
use super::replicated::{Availability, NodeIx};

const A: NodeIx = 0;
const B: NodeIx = 1;

/// One of them: the rules that must be left out, how the VM is asked for, and the steps; those that are not
/// possible are skipped.
pub type Interleaving = (&'static str, Availability, Vec<Action>);

/// Every interleaving.
pub fn every() -> Vec<Interleaving> {
    let failover = [
        ("1a", failed_build_is_told()),
        ("1b", placed_before_the_fence()),
        ("3", [lead(A), run(B, A), set_back(B, 2), vec![Action::Stop(B)]].concat()),
        ("4a", restarted_leader()),
        ("4b", decision_of_an_earlier_leadership()),
        ("5", superseded_leader_grants()),
        ("6a", superseded_leader_grants()),
        ("6b", late_grant()),
        ("6c", grant_to_an_earlier_process()),
        ("7a", granted_while_the_fence_is_under_way()),
        ("7b", fenced_during_the_round()),
        ("8a", fenced_while_granted()),
        ("8b", [lead(A), run(A, A), lead(B), fence(A, B), run(B, B)].concat()),
        ("9", [lead(A), run(B, A), ticks(5), gone_elsewhere()].concat()),
        ("10", freeze_applied_late()),
        ("11a", back_from_a_fence_with_an_old_replica()),
        ("11b", [given_back(), run(A, A), start(B)].concat()),
        ("11c", decided_long_ago()),
        ("11d", [pending(), ticks(5), gone_elsewhere(), vec![Action::ShimStarts(B)]].concat()),
        ("14a", [lead(A), run(B, A), set_back(B, 2), vec![Action::DeleteDirectory(B)]].concat()),
        ("15", lease_file_of_the_last_boot()),
        ("16,20", back_too_early()),
        ("16,23", shim_that_was_forgotten()),
        ("17a", [lead(A), run(B, A), vec![Action::Pause(B)], ticks(5), gone_elsewhere()].concat()),
        ("17b", shim_and_daemon_gone()),
        ("17c", [lead(A), run(B, A), vec![Action::PauseShim(B)], ticks(5), gone_elsewhere()].concat()),
        ("23", given_back_under_a_shim()),
    ];
    let pinned = [
        ("2", given_back_and_forgotten()),
        ("12a", reported_unarmed()),
        ("12b", freed_too_early()),
        ("12c", report_for_an_older_request()),
        ("12d", freed_by_an_old_replica()),
        ("12e", started_unbound_by_an_old_replica()),
        ("13a", started_again_after_it_was_given_back()),
        ("13b", started_cold_after_an_evacuation()),
        ("14b", mark_deleted_first()),
        ("19", [lead(A), run(B, A), ticks(5), gone_elsewhere()].concat()),
    ];
    let of = |availability| move |(rules, steps)| (rules, availability, steps);
    let failover = failover.into_iter().map(of(Availability::Failover));
    failover.chain(pinned.into_iter().map(of(Availability::Pinned))).collect()
}

/// A fences B, and runs the VM itself.
fn gone_elsewhere() -> Vec<Action> {
    [fence(B, A), run(A, A)].concat()
}

/// B's shim is between its exec and its check.
fn pending() -> Vec<Action> {
    let mut steps = [lead(A), run(B, A)].concat();
    steps.retain(|action| !matches!(action, Action::ShimStarts(_)));
    steps
}

/// B has the VM and gives it back, which is committed and not applied there yet.
fn given_back() -> Vec<Action> {
    let release = vec![Action::MarkReleased(B), Action::ProposeRelease(B)];
    [lead(A), place(B, A), lease(B, A), catch_up(B), release, commit(), catch_up(A)].concat()
}

fn set_back(node: NodeIx, entries: u8) -> Vec<Action> {
    vec![Action::Crash(node), Action::Restart(node, entries)]
}

fn failed_build_is_told() -> Vec<Action> {
    let placed = [lead(A), place(B, A), lease(B, A), catch_up(B)].concat();
    let told = [vec![Action::ProposeBuildFailed(B)], commit(), catch_up(A)].concat();
    [placed, told, run(A, A), start(B)].concat()
}

fn placed_before_the_fence() -> Vec<Action> {
    let decided = vec![Action::DecideFence(A, B), Action::DecidePlace(A, A), Action::Lose(0)];
    let lives = [lease(B, A), start(B)].concat();
    let placed = [commit(), catch_up(A), lease(A, A), start(A)].concat();
    [lead(A), run(B, A), ticks(5), decided, lives, placed].concat()
}

fn late_grant() -> Vec<Action> {
    let sent = [beat(B, A), vec![Action::BeginRound(A), Action::ConfirmRound(A), Action::SendGrant(A, B)]];
    let arrives = vec![Action::DeliverGrant(B, 1)];
    [lead(A), run(B, A), sent.concat(), ticks(4), arrives, start(B), ticks(1), gone_elsewhere()].concat()
}

fn grant_to_an_earlier_process() -> Vec<Action> {
    let gone = [catch_up(B), vec![Action::DeleteDirectory(B)]].concat();
    let again = [set_back(B, 1), vec![Action::DeliverGrant(B, 0)], start(B)].concat();
    [given_back(), gone, run(A, A), again].concat()
}

fn granted_while_the_fence_is_under_way() -> Vec<Action> {
    let proposed = vec![Action::DecideFence(A, B)];
    let granted = [lease(B, A), start(B)].concat();
    [lead(A), run(B, A), ticks(5), proposed, granted, commit(), catch_up(A), run(A, A)].concat()
}

fn freeze_applied_late() -> Vec<Action> {
    let renewed = [ticks(2), lease(B, A)].concat();
    let frozen = [vec![Action::Freeze], catch_up(A)].concat();
    let late = [ticks(2), vec![Action::Apply(B)], ticks(3)].concat();
    [lead(A), run(B, A), frozen, renewed.repeat(4), late, gone_elsewhere()].concat()
}

fn decided_long_ago() -> Vec<Action> {
    let decided = [lead(A), place(B, A), lease(B, A), catch_up(B), vec![Action::DecideStart(B)]].concat();
    let back = [ticks(5), fence(B, A), unfence(B, A), lease(B, A), run(A, A)].concat();
    [decided, back, vec![Action::Exec(B), Action::ShimStarts(B)]].concat()
}

fn shim_and_daemon_gone() -> Vec<Action> {
    let gone = vec![Action::ShimDies(B), Action::Crash(B)];
    [lead(A), run(B, A), gone, ticks(5), gone_elsewhere()].concat()
}

fn given_back_under_a_shim() -> Vec<Action> {
    let release = vec![Action::MarkReleased(B), Action::ProposeRelease(B)];
    let elsewhere = [commit(), catch_up(A), run(A, A)].concat();
    [pending(), set_back(B, 0), release, elsewhere, vec![Action::ShimStarts(B)]].concat()
}

fn given_back_and_forgotten() -> Vec<Action> {
    let release = [vec![Action::VmmExits(B), Action::ProposeRelease(B)], commit(), catch_up(A)].concat();
    [lead(A), run(B, A), release, run(A, A), set_back(B, 0), ticks(3), start(B)].concat()
}

fn reported_unarmed() -> Vec<Action> {
    let mut there = [lead(A), run(B, A), to_failover(B, A), commit(), catch_up(A)].concat();
    there.retain(|action| !matches!(action, Action::Arm(_)));
    [there, ticks(5), gone_elsewhere()].concat()
}

fn freed_too_early() -> Vec<Action> {
    let there = [lead(A), run(B, A), to_failover(B, A), commit(), catch_up(B)].concat();
    let freed = [vec![Action::Request(Availability::Pinned)], catch_up(B), vec![Action::Disarm(B)]];
    [there, freed.concat(), ticks(5), gone_elsewhere()].concat()
}

fn started_cold_after_an_evacuation() -> Vec<Action> {
    let off = [vec![Action::PowerOff(B), Action::Evacuate(B)], catch_up(A), run(A, A)].concat();
    let on = vec![Action::PowerOn(B), Action::Restart(B, 0)];
    [lead(A), run(B, A), off, on, start(B)].concat()
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
    let forgotten = vec![Action::Crash(B), Action::Restart(B, 0)];
    let back = [ticks(5), fence(B, A), unfence(B, A), lease(B, A), run(A, A)].concat();
    [pending(), forgotten, back, vec![Action::ShimStarts(B)]].concat()
}

fn back_too_early() -> Vec<Action> {
    let back = [ticks(5), fence(B, A), unfence(B, A), lease(B, A), run(A, A)].concat();
    [pending(), back, vec![Action::ShimStarts(B)]].concat()
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
