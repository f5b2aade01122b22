//! Takes failover VMs from nodes that may be dead, once every lease has ended and not too many at a time, and
//! closes the books on long leases: those of a freeze, those of a ttl that was lowered (FENCING.md, rules 8 to 10).

use holm_model::command::{Command, EndFreeze, FenceNode, SettleLeaseTtl};
use holm_model::feasible::may_be_fenced;
use holm_model::node::Node;
use holm_model::vm::Vm;
use holm_model::{State, Timestamp};

use crate::controller::{Controller, Facts};

/// Follows the leases.
#[derive(Clone, Copy, Debug)]
pub struct Fencing;

impl Controller for Fencing {
    fn name(&self) -> &'static str {
        "fencing"
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn decide(&self, state: &State, facts: &Facts) -> Vec<Command> {
        let Some(leadership) = state.leadership else { return Vec::new() };
        let leadership = leadership.revision;
        let mut commands = Vec::new();
        if let Some(freeze) = facts.thawed.filter(|_| state.freeze.is_some()) {
            commands.push(Command::EndFreeze(EndFreeze { leadership, freeze }));
        }
        let policy = &state.policy;
        if facts.longer_leases_ended && policy.longest_ttl_ms > policy.lease_ttl_ms {
            let policy = policy.revision;
            commands.push(Command::SettleLeaseTtl(SettleLeaseTtl { leadership, policy }));
        }
        let may_be_fenced = to_fence(state).filter(|node| facts.fenceable.contains(&node.id));
        let fences = may_be_fenced.take(fences_left(state, facts.now));
        commands.extend(fences.map(|node| Command::FenceNode(FenceNode { leadership, node: node.id })));
        commands
    }
}

/// Nodes whose fence would bring something back.
pub fn to_fence(state: &State) -> impl Iterator<Item = &Node> {
    let brings_back = |node: &&Node| state.vms_on(node.id).any(Vm::fails_over);
    state.nodes.values().filter(|node| may_be_fenced(state, node).is_ok()).filter(brings_back)
}

/// How many nodes may be fenced within a ttl: a fifth of them, one at least. When more than that fall silent
/// together, the network is the likelier cause, and a person should look.
pub fn at_once(state: &State) -> usize {
    (state.nodes.len() / 5).max(1)
}

/// How many more of them may be fenced now.
pub fn fences_left(state: &State, now: Timestamp) -> usize {
    // Also those that are back by now.
    let lately = |node: &&Node| {
        node.fenced_at.is_some_and(|at| now.0.saturating_sub(at.0) < state.policy.lease_ttl_ms)
    };
    at_once(state).saturating_sub(state.nodes.values().filter(lately).count())
}
