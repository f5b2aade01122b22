//! Marks nodes up that have reported and are heard, and down those that the leader no longer hears. `up`
//! says whether anything new may be placed there; it frees no claim (FENCING.md, rule 1).

use holm_model::State;
use holm_model::command::{Command, SetNodeUp};

use crate::controller::{Controller, Facts};

/// A node not heard for longer than this is down; five missed heartbeats.
pub const DOWN_AFTER_MS: u64 = 5_000;
/// A node must have been heard this recently to be up again; the gap to [`DOWN_AFTER_MS`] keeps a node
/// at the edge from flapping.
pub const UP_BELOW_MS: u64 = 2_000;

/// Follows who is heard.
#[derive(Clone, Copy, Debug)]
pub struct NodeHealth;

impl Controller for NodeHealth {
    fn name(&self) -> &'static str {
        "node-health"
    }

    fn decide(&self, state: &State, facts: &Facts) -> Vec<Command> {
        let Some(leadership) = state.leadership else { return Vec::new() };
        let mut commands = Vec::new();
        for node in state.nodes.values() {
            let Some(silent_ms) = facts.silent_ms.get(&node.id) else { continue };
            let up = if node.up { *silent_ms <= DOWN_AFTER_MS } else { *silent_ms < UP_BELOW_MS };
            if up != node.up && (!up || node.report.is_some()) {
                commands.push(Command::SetNodeUp(SetNodeUp {
                    leadership: leadership.revision,
                    node: node.id,
                    up,
                }));
            }
        }
        commands
    }
}
