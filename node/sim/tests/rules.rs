//! The fencing protocol under attack: with every rule the walks find nothing in millions of steps, and with
//! any one left out they find the interleaving it prevents. Where a rule is doubled by others, those that
//! stand in for it are left out with it, and the test says so.

use holm_sim::fencing::search::{Bounds, Outcome, search};
use holm_sim::fencing::walk::{self, Finding};
use holm_sim::fencing::{Action, Availability, Rule, Rules, Violation, piece};

const SEED: u64 = 1;
/// Within this many steps each left-out rule is found.
const STEPS: u64 = 1_000_000;

#[test]
fn with_every_rule_three_million_steps_find_nothing() {
    assert_eq!(walk::walk(Rules::all(), SEED, 3_000_000), None);
}

#[test]
fn with_any_rule_left_out_its_interleaving_is_found() {
    for rule in Rule::ALL {
        let rules = without(*rule);
        let found = walk::walk(rules, SEED, STEPS);
        let found = found.unwrap_or_else(|| panic!("nothing with rules {rules}: {}", rule.says()));
        let shrunk = walk::shrink(rules, &found);
        let again = walk::replay(rules, shrunk.availability, &shrunk.actions);
        assert_eq!(again, (shrunk.actions.clone(), Some(shrunk.violation)), "a shrunk walk is a walk");
        print(*rule, rules, &shrunk);
    }
}

/// The rule left out, with those that stand in for it.
fn without(rule: Rule) -> Rules {
    let rules = Rules::all().without(rule);
    match rule {
        // A shim that was forgotten starts under another lease id, or is not forgotten at all.
        Rule::NewIdAfterLapse => rules.without(Rule::ShimHoldsDirectory),
        // A node back too early holds a lease with another id, under which nothing of old starts.
        Rule::UnfenceAfterReport => rules.without(Rule::NewIdAfterLapse),
        _ => rules,
    }
}

#[test]
fn the_rules_that_others_stand_in_for_are_not_found_alone() {
    for rule in [Rule::NewIdAfterLapse, Rule::UnfenceAfterReport] {
        assert_eq!(walk::walk(Rules::all().without(rule), SEED, STEPS), None, "{}", rule.number());
    }
}

fn print(rule: Rule, rules: Rules, found: &Finding) {
    println!("without {}: {}\n  rules {rules}, {:?}:", rule.number(), rule.says(), found.violation);
    for action in &found.actions {
        println!("    {action}");
    }
}

const A: usize = 0;
const B: usize = 1;

/// Steps of the lease protocol proper, after `opening`: leadership moves, leases are asked for and granted, A
/// is fenced, and the VM is started on B.
fn bounds(opening: Vec<Action>) -> Bounds {
    let of_one = |n| {
        [Action::SendHeartbeat(n), Action::DeliverHeartbeat(n, 0, n), Action::BeginRound(n), Action::Apply(n)]
            .into_iter()
            .chain([Action::ConfirmRound(n), Action::SendGrant(n, n), Action::DeliverGrant(n, 0)])
            .chain([Action::DecideStart(n), Action::Exec(n), Action::ShimStarts(n), Action::Elect(n)])
            .chain([Action::CommitBegin(n)])
    };
    let others = [Action::Tick, Action::Commit(0), Action::DecideFence(B, A), Action::DecidePlace(B, B)];
    Bounds {
        availability: Availability::Failover,
        opening,
        steps: of_one(A).chain(of_one(B)).chain(others).collect(),
        depth: 40,
        states: 150_000,
    }
}

#[test]
fn breadth_first_every_near_state_is_good_and_a_missing_rule_is_found_by_the_shortest_way() {
    let under_way = [piece::lead(A), piece::run(A, A)].concat();
    let all = search(Rules::all(), &bounds(under_way.clone()));
    let Outcome::Exhausted { states, depth } = all else { panic!("{all:?}") };
    println!("every state up to depth {depth}: {states}");
    assert!(states >= 100_000 && depth >= 8, "{states} {depth}");

    // B leads now, and fences A without a wait.
    let elsewhere = [piece::fence(A, B), piece::place(B, B), piece::lease(B, B), piece::catch_up(B)];
    let opening = [under_way, piece::lead(B), elsewhere.concat()].concat();
    let without = search(Rules::all().without(Rule::WaitSinceLeadership), &bounds(opening.clone()));
    let Outcome::Found(way, violation) = without else { panic!("{without:?}") };
    assert_eq!(violation, Violation::TwoVmms);
    let last = [Action::DecideStart(B), Action::Exec(B), Action::ShimStarts(B)];
    assert_eq!(way[opening.len()..], last);
}
