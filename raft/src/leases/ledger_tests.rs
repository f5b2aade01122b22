//! The books, rule by rule (FENCING.md).

use std::collections::{BTreeMap, BTreeSet};

use holm_model::cluster_policy::Freeze;
use holm_model::command::*;
use holm_model::node::Fence;
use holm_model::state::Leadership;
use holm_model::*;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

const A: NodeId = NodeId(2);
/// Milliseconds since boot at which the tests' leaderships begin.
const BEGAN: u64 = 1_000_000;

/// Three nodes, led by the first, whose leadership is of this revision.
fn state(leadership: u64) -> State {
    let mut state = State::default();
    let actor = || Actor { name: "test".into(), project: String::new() };
    let entry = |command| {
        Entry::new(Timestamp(1), Proposal { key: None, seen: Revision(0), actor: actor(), command })
    };
    for n in 1..=3 {
        let (name, peer_addr, api_addr) = (format!("n{n}"), format!("h{n}:1"), format!("h{n}:2"));
        apply(&mut state, &entry(Command::AddNode(AddNode { name, peer_addr, api_addr })));
    }
    state.leadership = Some(Leadership {
        node: NodeId(1),
        term: leadership,
        incarnation: Incarnation(Uuid::nil()),
        revision: Revision(leadership),
        at: Timestamp(1),
    });
    state
}

fn wait(state: &State) -> u64 {
    state.policy.longest_ttl_ms + state.policy.margin_ms
}

/// Ticks every 500 ms from `from` up to `to`.
fn pass(ledger: &mut Ledger, state: &State, from: u64, to: u64, heard: bool) {
    for now in (from..=to).step_by(500) {
        ledger.follow(state, now);
        ledger.tick(now, heard);
    }
}

fn opened(state: &State) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.follow(state, BEGAN);
    ledger
}

#[test]
fn a_new_leader_waits_for_the_leases_of_earlier_ones() {
    let state = state(10);
    let mut ledger = opened(&state);
    let end = BEGAN + wait(&state);
    pass(&mut ledger, &state, BEGAN, end - 500, true);
    assert!(ledger.fenceable(&state, end - 1).is_empty());
    pass(&mut ledger, &state, end, end + 500, true);
    assert!(ledger.fenceable(&state, end + 500).contains(&A));
}

#[test]
fn a_leader_of_a_new_term_opens_new_books() {
    let (first, second) = (state(10), state(20));
    let mut ledger = opened(&first);
    let end = BEGAN + wait(&first) + 1_000;
    pass(&mut ledger, &first, BEGAN, end, true);
    assert!(ledger.fenceable(&first, end).contains(&A));
    ledger.follow(&second, end);
    assert!(ledger.fenceable(&second, end).is_empty());
}

#[test]
fn a_granted_lease_is_waited_for_from_its_last_grant() {
    let state = state(10);
    let mut ledger = opened(&state);
    let granted_at = BEGAN + 30_000;
    pass(&mut ledger, &state, BEGAN, granted_at, true);
    ledger.grant(&state, A, granted_at);
    let end = granted_at + wait(&state);
    pass(&mut ledger, &state, granted_at, end - 1, true);
    assert!(!ledger.fenceable(&state, end - 1).contains(&A));
    pass(&mut ledger, &state, end, end + 500, true);
    assert!(ledger.fenceable(&state, end + 500).contains(&A));
}

#[test]
fn silence_counts_only_while_the_leader_can_hear() {
    let state = state(10);
    let mut ledger = opened(&state);
    let end = BEGAN + 3 * wait(&state);
    pass(&mut ledger, &state, BEGAN, end, false);
    assert!(ledger.fenceable(&state, end).is_empty(), "no quorum");
    pass(&mut ledger, &state, end, end + 2_000, true);
    assert!(ledger.fenceable(&state, end + 2_000).is_empty(), "a quorum for two seconds");
    // Thawed after a minute: afresh.
    let thawed = end + 60_000;
    pass(&mut ledger, &state, thawed, thawed + 2_000, true);
    assert!(ledger.fenceable(&state, thawed + 2_000).is_empty(), "thawed");
    pass(&mut ledger, &state, thawed + 2_000, thawed + 2_000 + wait(&state), true);
    assert!(ledger.fenceable(&state, thawed + 2_000 + wait(&state)).contains(&A));
}

#[test]
fn grant_and_fence_exclude_each_other() {
    let state = state(10);
    let mut ledger = opened(&state);
    let end = BEGAN + wait(&state) + 1_000;
    pass(&mut ledger, &state, BEGAN, end, true);
    assert!(ledger.begin_fence(&state, A, end));
    assert_eq!(ledger.may_grant(&state, A), Err(Refusal::Fencing));
    ledger.end_fence(Revision(9), A);
    assert_eq!(ledger.may_grant(&state, A), Err(Refusal::Fencing), "of another leadership");
    ledger.end_fence(Revision(10), A);
    assert_eq!(ledger.may_grant(&state, A), Ok(()));
    ledger.grant(&state, A, end);
    assert!(!ledger.begin_fence(&state, A, end), "it was granted a lease");
    let mut fenced = state.clone();
    fenced.nodes.get_mut(&A).unwrap().fence =
        Some(Fence { at: Timestamp(1), revision: Revision(11), lost: BTreeMap::new() });
    assert_eq!(ledger.may_grant(&fenced, A), Err(Refusal::Fenced));
    assert_eq!(ledger.may_grant(&state, NodeId(9)), Err(Refusal::NoMember));
}

#[test]
fn a_node_that_holds_nothing_for_long_is_cut_off_when_its_vms_should_move() {
    let state = state(10);
    let mut ledger = opened(&state);
    assert_eq!(ledger.note_heartbeat(&state, A, false, BEGAN), Ok(()));
    ledger.grant(&state, A, BEGAN);
    for s in 1..60 {
        let now = BEGAN + s * 1_000;
        assert_eq!(ledger.note_heartbeat(&state, A, false, now), Ok(()), "it has no failover VM");
        ledger.grant(&state, A, now);
    }
}

#[test]
fn a_leader_that_had_no_quorum_does_not_blame_its_own_node() {
    let state = state(10);
    let mut ledger = opened(&state);
    ledger.grant(&state, A, BEGAN);
    // Its heartbeats arrive, being local; its lease lapses, since no round completes.
    let outage = BEGAN + 60_000;
    for now in (BEGAN..=outage).step_by(500) {
        ledger.tick(now, false);
        assert_eq!(ledger.note_heartbeat(&state, A, false, now), Ok(()));
    }
    ledger.tick(outage + 500, true);
    assert!(ledger.fenceable(&state, outage + 500).is_empty());
}

fn freeze(for_ms: u64) -> Freeze {
    let (since, revision) = (Timestamp(1), Revision(12));
    Freeze { since, for_ms, longest_ms: for_ms, reason: None, revision, over: false, short: BTreeSet::new() }
}

#[test]
fn a_freeze_that_is_called_off_is_over_when_every_lease_is_short_again_whoever_leads() {
    let mut state = state(10);
    let nodes: BTreeSet<NodeId> = state.nodes.keys().copied().collect();
    let mut ledger = opened(&state);
    let now = BEGAN + 60_000;
    pass(&mut ledger, &state, BEGAN, now, true);
    state.freeze = Some(freeze(3_600_000));
    ledger.follow(&state, now);
    ledger.grant(&state, A, now);
    let off = |state: &mut State, short: &BTreeSet<NodeId>| {
        state.freeze = Some(Freeze { over: true, short: short.clone(), ..freeze(3_600_000) });
    };
    off(&mut state, &BTreeSet::from([A]));
    ledger.follow(&state, now + 1_000);
    assert_eq!(ledger.grant(&state, A, now + 1_000).ttl_ms, 15_000);
    assert_eq!(ledger.thawed(&state, now + 1_000), None, "others may hold long leases yet");
    off(&mut state, &nodes);
    ledger.follow(&state, now + 2_000);
    assert_eq!(ledger.thawed(&state, now + 2_000), Some(Revision(12)));
    let mut next = Ledger::default();
    let mut elected = state.clone();
    elected.leadership = Some(Leadership { revision: Revision(20), ..state.leadership.unwrap() });
    next.follow(&elected, now + 2_000);
    assert_eq!(next.thawed(&elected, now + 2_000), Some(Revision(12)), "it is told by the log");

    state.freeze = None;
    let silent = now + 10_000 + wait(&state);
    pass(&mut ledger, &state, now + 2_000, silent, true);
    assert!(ledger.fenceable(&state, silent).contains(&A), "no longer than after any other lease");
}

#[test]
fn a_freeze_makes_leases_long_and_is_over_when_they_are() {
    let mut state = state(10);
    let mut ledger = opened(&state);
    let for_ms = 60_000;
    state.freeze = Some(freeze(for_ms));
    ledger.follow(&state, BEGAN + 1_000);
    assert_eq!(ledger.grant(&state, A, BEGAN + 1_000).ttl_ms, 60_000 + 15_000);
    assert_eq!(ledger.grant(&state, A, BEGAN + 31_000).ttl_ms, 30_000 + 15_000);
    let thaw = BEGAN + 1_000 + for_ms + wait(&state);
    pass(&mut ledger, &state, BEGAN + 1_000, thaw - 1, true);
    assert_eq!(ledger.thawed(&state, thaw - 1), None);
    assert!(ledger.fenceable(&state, thaw - 1).is_empty());
    assert_eq!(ledger.thawed(&state, thaw), Some(Revision(12)));
    // Another leader, at the last moment: it cannot know what was granted, and waits again.
    let mut next = Ledger::default();
    state.leadership = Some(Leadership { revision: Revision(20), ..state.leadership.unwrap() });
    next.follow(&state, thaw);
    assert_eq!(next.thawed(&state, thaw + for_ms), None);
    assert_eq!(next.thawed(&state, thaw + for_ms + wait(&state)), Some(Revision(12)));
}

#[test]
fn a_lowered_ttl_shortens_the_wait_only_when_the_longer_leases_have_ended() {
    let mut state = state(10);
    state.policy.longest_ttl_ms = 100_000;
    state.policy.revision = Revision(9);
    let mut ledger = opened(&state);
    let end = BEGAN + 105_000;
    pass(&mut ledger, &state, BEGAN, end - 500, true);
    assert!(ledger.fenceable(&state, end - 500).is_empty());
    assert!(!ledger.longer_leases_ended(&state, end - 1));
    assert!(ledger.longer_leases_ended(&state, end));
}

proptest! {
    /// Whatever happens, nobody is fenceable before the last lease any leader granted has ended by the margin.
    #[test]
    fn nobody_is_fenced_under_a_lease(steps in proptest::collection::vec((0..6u8, 1..4_000u64), 1..200)) {
        let mut now = BEGAN;
        let mut leadership = 10;
        let mut current = state(leadership);
        let mut ledger = opened(&current);
        let mut ends = 0;
        for (what, passed) in steps {
            now += passed;
            match what {
                0 => {
                    leadership += 1;
                    current = state(leadership);
                }
                1 | 2 => {
                    ledger.follow(&current, now);
                    if ledger.may_grant(&current, A).is_ok() {
                        ends = now + ledger.grant(&current, A, now).ttl_ms;
                    }
                }
                3 => ledger.tick(now, false),
                _ => ledger.tick(now, true),
            }
            ledger.follow(&current, now);
            if ledger.fenceable(&current, now).contains(&A) {
                prop_assert!(now >= ends + current.policy.margin_ms, "fenced at {now}, the lease ends at {ends}");
            }
        }
    }
}
