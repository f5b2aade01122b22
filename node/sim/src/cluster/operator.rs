//! The operator: cordons, drains, maintenance and freezes while things go wrong, and takes it all back once
//! everything is healed.

use holm_model::command::{
    Command, DrainRequest, SetFreeze, SetNodeDrain, SetNodeEnabled, SetNodeMaintenance,
};
use holm_model::node::DrainPinned;

use super::event::{Event, Ix};
use super::node::{Waiting, id};
use super::sim::{NODES, Sim};

impl Sim {
    /// The operator does something to a node or to the cluster.
    pub fn operate(&mut self) {
        if self.healed_at.is_some() {
            return;
        }
        self.heap.push(self.now + 2_000 + self.rng.below(15_000), Event::Operator);
        let (through, node) = (self.rng.below(NODES as u64) as Ix, self.rng.below(NODES as u64) as Ix);
        if !self.runs(through) {
            return;
        }
        let on = self.rng.percent(40);
        let command = match self.rng.below(4) {
            0 => enabled(node, !on),
            1 => drain(node, on.then(|| self.drain_request())),
            2 => maintenance(node, on, self.rng.percent(50).then(|| self.drain_request())),
            _ => freeze(on.then(|| 1_000 + self.rng.below(30_000))),
        };
        self.order(through, command);
    }

    fn drain_request(&mut self) -> DrainRequest {
        let pinned = if self.rng.percent(50) { DrainPinned::Stop } else { DrainPinned::Keep };
        DrainRequest { stop_timeout_s: 5, pinned }
    }

    fn order(&mut self, through: Ix, command: Command) {
        let name = command.name();
        self.note(|| format!("the operator asks n{} for {name}", through + 1));
        self.propose(through, command, Waiting::Operator);
    }

    /// Takes back whatever still stands, until it no longer does.
    pub fn take_back(&mut self) {
        let state = self.log.newest().clone();
        for node in 0..NODES {
            let Some(record) = state.nodes.get(&id(node)) else { continue };
            if record.maintenance.is_some() {
                self.order(node, maintenance(node, false, None));
            } else if record.drain.is_some() {
                self.order(node, drain(node, None));
            } else if !record.enabled {
                self.order(node, enabled(node, true));
            }
        }
        if state.freeze.as_ref().is_some_and(|freeze| !freeze.over) {
            self.order(0, freeze(None));
        }
    }
}

fn enabled(node: Ix, enabled: bool) -> Command {
    Command::SetNodeEnabled(SetNodeEnabled { node: id(node), enabled, reason: None, expected: None })
}

fn drain(node: Ix, drain: Option<DrainRequest>) -> Command {
    Command::SetNodeDrain(SetNodeDrain { node: id(node), drain, expected: None })
}

fn maintenance(node: Ix, on: bool, drain: Option<DrainRequest>) -> Command {
    let drain = drain.filter(|_| on);
    Command::SetNodeMaintenance(SetNodeMaintenance {
        node: id(node),
        on,
        reason: None,
        drain,
        expected: None,
    })
}

fn freeze(for_ms: Option<u64>) -> Command {
    Command::SetFreeze(SetFreeze { for_ms, reason: None })
}
