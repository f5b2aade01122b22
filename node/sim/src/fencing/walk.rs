//! Random walks, biased to trouble, and the shrinking of what they find. Each walk draws which faults it has
//! and how often each kind of step comes (a swarm): rare combinations are then common in some walks.

use super::action::Action;
use super::replicated::Availability;
use super::rule::Rules;
use super::world::{Violation, World};
use crate::rng::Rng;

/// Entries after which a walk ends; replicas are prefixes of the log, so it need not be long.
const LOG: usize = 24;
/// Steps after which a walk ends.
const LENGTH: usize = 160;

/// What a walk found: the steps that lead there, from an empty cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub availability: Availability,
    pub actions: Vec<Action>,
    pub violation: Violation,
    /// Steps of all walks up to it.
    pub steps: u64,
}

/// Walks `steps` steps in all, in walks that follow from `seed`; the first violation, if there is one.
pub fn walk(rules: Rules, seed: u64, steps: u64) -> Option<Finding> {
    let every = Action::every();
    let mut rng = Rng::new(seed);
    let mut taken = 0;
    while taken < steps {
        let availability =
            if rng.percent(60) { Availability::Failover } else { Availability::Pinned };
        let one = one_walk(rules, availability, &every, &mut rng);
        taken += one.0.len() as u64;
        if let (actions, Some(violation)) = one {
            return Some(Finding { availability, actions, violation, steps: taken });
        }
    }
    None
}

fn one_walk(
    rules: Rules,
    availability: Availability,
    every: &[Action],
    rng: &mut Rng,
) -> (Vec<Action>, Option<Violation>) {
    let bag = Bag::draw(every, rng);
    let mut world = World::new(availability);
    let mut actions = Vec::new();
    // A step that is not possible changes nothing that a walk needs: it is tried on a copy.
    let mut misses = 0;
    while actions.len() < LENGTH && world.committed() < LOG && misses < 2_000 {
        let action = bag.pick(rng);
        let mut next = world.clone();
        if next.step(action, rules).is_err() {
            misses += 1;
            continue;
        }
        world = next;
        actions.push(action);
        if let Some(violation) = world.violation() {
            return (actions, Some(violation));
        }
    }
    (actions, None)
}

/// Which steps a walk has, each as often as it is likely.
struct Bag(Vec<Action>);

impl Bag {
    fn draw(every: &[Action], rng: &mut Rng) -> Self {
        let mut actions = Vec::new();
        for action in every {
            let weight = match (action.is_fault(), action) {
                (_, Action::Tick) => 1 + rng.below(30),
                (_, Action::Apply(_)) => 1 + rng.below(12),
                (true, Action::Elect(_)) => [0, 1, 1, 2][rng.below(4) as usize],
                (true, _) => [0, 0, 1, 2][rng.below(4) as usize],
                (false, _) => 1 + rng.below(4),
            };
            actions.extend((0..weight).map(|_| *action));
        }
        // Without anybody ever elected nothing happens at all.
        actions.push(Action::Elect(rng.below(2) as usize));
        Self(actions)
    }

    fn pick(&self, rng: &mut Rng) -> Action {
        self.0[rng.below(self.0.len() as u64) as usize]
    }
}

/// What `actions` end in, steps that are not possible left out; and the steps up to there.
pub fn replay(
    rules: Rules,
    availability: Availability,
    actions: &[Action],
) -> (Vec<Action>, Option<Violation>) {
    let mut world = World::new(availability);
    let mut taken = Vec::new();
    for action in actions {
        let mut next = world.clone();
        if next.step(*action, rules).is_ok() {
            world = next;
            taken.push(*action);
            if let Some(violation) = world.violation() {
                return (taken, Some(violation));
            }
        }
    }
    (taken, None)
}

/// The same finding with every step left out that it does not need.
#[must_use]
pub fn shrink(rules: Rules, finding: &Finding) -> Finding {
    let mut best = finding.clone();
    let mut chunk = best.actions.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        let mut shrunk = false;
        while at < best.actions.len() {
            let mut fewer = best.actions.clone();
            fewer.drain(at..(at + chunk).min(fewer.len()));
            match replay(rules, best.availability, &fewer) {
                (actions, Some(violation)) if violation == best.violation => {
                    best.actions = actions;
                    shrunk = true;
                }
                _ => at += chunk,
            }
        }
        if !shrunk || chunk > 1 {
            chunk /= 2;
        }
    }
    best
}
