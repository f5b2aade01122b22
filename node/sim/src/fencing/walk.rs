//! Random walks, biased to trouble, and the shrinking of what they find. Each walk draws which faults it has
//! and how often each kind of step comes (a swarm): rare combinations are then common in some walks.

use std::collections::VecDeque;

use super::action::Action;
use super::replicated::Availability;
use super::routine;
use super::rule::Rules;
use super::world::{Violation, World};
use crate::rng::Rng;

/// Entries after which a walk ends; replicas are prefixes of the log, so it need not be long.
const LOG: usize = 24;
/// Steps after which a walk ends.
const LENGTH: usize = 250;

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
        let (availability, opening) = routine::opening(&every, &mut rng);
        let one = one_walk(rules, availability, opening, &every, &mut rng);
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
    opening: Vec<Action>,
    every: &[Action],
    rng: &mut Rng,
) -> (Vec<Action>, Option<Violation>) {
    let bag = Bag::draw(every, rng);
    let mut walk = Walk { rules, world: World::new(availability), actions: Vec::new(), misses: 0 };
    for action in opening {
        if let Some(violation) = walk.try_step(action) {
            return (walk.actions, Some(violation));
        }
    }
    walk.misses = 0;
    // Several routines go on at once and take turns at random.
    let mut under_way: [VecDeque<Action>; 3] = Default::default();
    let width = 1 + rng.below(3);
    let mut turn = 0;
    while walk.goes_on() {
        if rng.percent(30) {
            turn = rng.below(width) as usize;
        }
        let Some(action) = under_way[turn].pop_front() else {
            under_way[turn].extend(bag.pick(&walk.world, rng));
            continue;
        };
        if let Some(violation) = walk.try_step(action) {
            return (walk.actions, Some(violation));
        }
    }
    (walk.actions, None)
}

struct Walk {
    rules: Rules,
    world: World,
    actions: Vec<Action>,
    misses: u32,
}

impl Walk {
    fn goes_on(&self) -> bool {
        self.actions.len() < LENGTH && self.world.committed() < LOG && self.misses < 2_000
    }

    /// Takes a step if it is possible, on a copy, because one that is not leaves a state half changed.
    fn try_step(&mut self, action: Action) -> Option<Violation> {
        let mut next = self.world.clone();
        if next.step(action, self.rules).is_err() {
            self.misses += 1;
            return None;
        }
        self.world = next;
        self.actions.push(action);
        self.world.violation()
    }
}

/// Which steps and routines a walk has, each as often as it is likely.
struct Bag {
    steps: Vec<Action>,
    routines: Vec<u64>,
    /// How often a routine comes rather than a single step, in percent.
    routinely: u64,
}

impl Bag {
    fn draw(every: &[Action], rng: &mut Rng) -> Self {
        let mut steps = vec![Action::Tick];
        for action in every {
            let weight = match (action.is_fault(), action) {
                (_, Action::Tick | Action::Apply(_)) => 1 + rng.below(12),
                (true, Action::Elect(_)) => [0, 0, 0, 1][rng.below(4) as usize],
                (true, _) => [0, 0, 0, 1, 2][rng.below(5) as usize],
                (false, _) => [0, 1, 1, 2][rng.below(4) as usize],
            };
            steps.extend((0..weight).map(|_| *action));
        }
        let mut routines = vec![0, 1, 3, 5, routine::KINDS - 1];
        for kind in 1..routine::KINDS {
            let weight = rng.below(5);
            routines.extend((0..weight).map(|_| kind));
        }
        Self { steps, routines, routinely: 30 + rng.below(65) }
    }

    fn pick(&self, world: &World, rng: &mut Rng) -> Vec<Action> {
        if rng.percent(self.routinely) {
            let kind = self.routines[rng.below(self.routines.len() as u64) as usize];
            return routine::draw(kind, world, rng);
        }
        vec![self.steps[rng.below(self.steps.len() as u64) as usize]]
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
