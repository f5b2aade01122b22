//! Breadth first through every state within bounds: what is not found is not there within them, and what is
//! found is found by a shortest way. The bounds are the kinds of steps that take part and the number of
//! steps; the search begins where the VM runs on A and A leads, because the way there is always the same.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::action::Action;
use super::replicated::Availability;
use super::rule::Rules;
use super::world::{Violation, World};

/// Where a search begins and which steps it has.
#[derive(Clone, Debug)]
pub struct Bounds {
    pub availability: Availability,
    pub opening: Vec<Action>,
    pub steps: Vec<Action>,
    pub depth: usize,
    pub states: usize,
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The shortest way to something that must not be, the opening included.
    Found(Vec<Action>, Violation),
    /// Every state was seen up to this depth; none is bad.
    Exhausted { states: usize, depth: usize },
}

/// Looks at every state reachable within the bounds.
pub fn search(rules: Rules, bounds: &Bounds) -> Outcome {
    let mut start = World::new(bounds.availability);
    for action in &bounds.opening {
        let mut next = start.clone();
        if next.step(*action, rules).is_ok() {
            start = next;
        }
    }
    // Each state by its hash, with the step and the state it was first reached from.
    let mut seen: HashMap<u64, Option<(u64, Action)>> = HashMap::from([(hash(&start), None)]);
    let mut frontier = vec![start];
    for depth in 1..=bounds.depth {
        let mut next_frontier = Vec::new();
        for world in &frontier {
            let from = hash(world);
            for action in &bounds.steps {
                let mut next = world.clone();
                if next.step(*action, rules).is_err() {
                    continue;
                }
                let to = hash(&next);
                if seen.contains_key(&to) {
                    continue;
                }
                seen.insert(to, Some((from, *action)));
                if let Some(violation) = next.violation() {
                    return Outcome::Found(way(bounds, &seen, to), violation);
                }
                next_frontier.push(next);
            }
            if seen.len() >= bounds.states {
                return Outcome::Exhausted { states: seen.len(), depth: depth - 1 };
            }
        }
        if next_frontier.is_empty() {
            return Outcome::Exhausted { states: seen.len(), depth };
        }
        frontier = next_frontier;
    }
    Outcome::Exhausted { states: seen.len(), depth: bounds.depth }
}

fn way(bounds: &Bounds, seen: &HashMap<u64, Option<(u64, Action)>>, to: u64) -> Vec<Action> {
    let mut steps = Vec::new();
    let mut at = to;
    while let Some((from, action)) = seen.get(&at).copied().flatten() {
        steps.push(action);
        at = from;
    }
    steps.reverse();
    let mut all = bounds.opening.clone();
    all.extend(steps);
    all
}

fn hash(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}
