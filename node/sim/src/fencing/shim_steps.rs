//! What shims do and what befalls a machine: starts, exits, kills, pauses, crashes, loss of power.

use super::leader_steps::possible;
use super::replicated::{Command, NodeIx};
use super::rule::{Rule, Rules};
use super::time::Timing;
use super::world::{Disabled, Lead, Step, Violation, World};

impl World {
    /// The shim, after its exec, checks the lease and starts the VMM, or ends.
    pub(super) fn shim_starts(&mut self, n: NodeIx, rules: Rules) -> Step {
        let node = &self.nodes[n];
        let shim = node.shim.filter(|shim| !shim.running && !shim.paused).ok_or(Disabled)?;
        possible(node.on && !node.frozen)?;
        let held = shim.armed.is_none_or(|armed| node.lease_holds(armed, rules));
        if !held && rules.on(Rule::ShimChecks) {
            self.nodes[n].shim = None;
            return Ok(());
        }
        if self.truth().epoch_on(n) != Some(shim.epoch) {
            self.violation.get_or_insert(Violation::EndedEpochStarted { node: n, epoch: shim.epoch });
        }
        if let Some(shim) = self.nodes[n].shim.as_mut() {
            shim.running = true;
        }
        Ok(())
    }

    /// The guest powers off, the VMM crashes, or the shim gives up: nothing of it is left.
    pub(super) fn vmm_exits(&mut self, n: NodeIx) -> Step {
        possible(!self.nodes[n].frozen && self.nodes[n].shim.take().is_some())
    }

    pub(super) fn shim_dies(&mut self, n: NodeIx, rules: Rules) -> Step {
        let node = &mut self.nodes[n];
        let shim = node.shim.as_mut().filter(|shim| shim.running && !shim.orphaned).ok_or(Disabled)?;
        shim.orphaned = true;
        shim.paused = false;
        if rules.on(Rule::ParentDeathSignal) {
            node.shim = None;
        }
        Ok(())
    }

    /// The daemon is killed. Its replica, its grants and its leadership were in memory.
    pub(super) fn crash(&mut self, n: NodeIx) -> Step {
        let node = &mut self.nodes[n];
        possible(node.on && node.up && !node.frozen && !node.shim_paused())?;
        node.up = false;
        self.forget_process(n);
        Ok(())
    }

    pub(super) fn restart(&mut self, n: NodeIx, back: u8, rules: Rules, timing: &Timing) -> Step {
        let node = &mut self.nodes[n];
        possible(node.on && !node.up && !node.frozen && back <= node.applied)?;
        node.up = true;
        node.process += 1;
        node.process_age = 0;
        node.applied -= back;
        // Where rule 4 is left out a restarted leader keeps its term and believes itself ready.
        if !rules.on(Rule::BeginLeadership) && self.elected == Some(n) {
            let mut lead = Lead::elected(self.replica(n).revision, timing);
            lead.begun = true;
            lead.leadership = Some(self.truth().leadership);
            self.leads[n] = Some(lead);
        }
        Ok(())
    }

    pub(super) fn power_off(&mut self, n: NodeIx, rules: Rules) -> Step {
        let node = &mut self.nodes[n];
        possible(node.on)?;
        node.on = false;
        node.up = false;
        node.frozen = false;
        node.shim = None;
        if rules.on(Rule::LeaseFileOfThisBoot) {
            node.lease = None;
        }
        self.forget_process(n);
        Ok(())
    }

    /// The machine boots; the daemon is started separately. Its clock begins at nought, so a deadline of the
    /// last boot, where it is believed, is that much further off.
    pub(super) fn power_on(&mut self, n: NodeIx, timing: &Timing) -> Step {
        let node = &mut self.nodes[n];
        possible(!node.on)?;
        node.on = true;
        if let Some(lease) = &mut node.lease {
            lease.remaining = timing.cap.min(lease.remaining + node.uptime);
        }
        node.uptime = 0;
        Ok(())
    }

    /// The operator says that a machine is off, and is right.
    pub(super) fn evacuate(&mut self, n: NodeIx, rules: Rules) -> Step {
        possible(!self.nodes[n].on && self.truth().epoch_on(n).is_some())?;
        possible(self.elected.is_some_and(|leader| leader != n && self.nodes[leader].daemon_runs()))?;
        self.nodes[n].evacuated = true;
        self.commit(Command::Evacuate { node: n }, rules);
        Ok(())
    }

    pub(super) fn pause(&mut self, n: NodeIx) -> Step {
        let node = &mut self.nodes[n];
        possible(node.daemon_runs() && !node.shim_paused())?;
        node.paused = true;
        Ok(())
    }

    pub(super) fn resume(&mut self, n: NodeIx, rules: Rules, timing: &Timing) -> Step {
        let node = &mut self.nodes[n];
        possible(node.paused && !node.frozen)?;
        node.paused = false;
        node.enforce(rules, timing);
        Ok(())
    }

    /// The shim is paused while the daemon runs: whoever stops both by hand is beyond the rules.
    pub(super) fn pause_shim(&mut self, n: NodeIx) -> Step {
        let node = &mut self.nodes[n];
        possible(node.daemon_runs())?;
        let shim = node.shim.as_mut().filter(|shim| !shim.orphaned && !shim.paused).ok_or(Disabled)?;
        shim.paused = true;
        Ok(())
    }

    pub(super) fn resume_shim(&mut self, n: NodeIx, rules: Rules, timing: &Timing) -> Step {
        let node = &mut self.nodes[n];
        let shim = node.shim.as_mut().filter(|shim| shim.paused).ok_or(Disabled)?;
        shim.paused = false;
        node.enforce(rules, timing);
        Ok(())
    }

    pub(super) fn freeze_machine(&mut self, n: NodeIx) -> Step {
        possible(self.nodes[n].on && !self.nodes[n].frozen)?;
        self.nodes[n].frozen = true;
        Ok(())
    }

    /// The machine goes on. The clock went on meanwhile, and the shim's timer comes first: the moment
    /// between is the assumption of the page.
    pub(super) fn thaw_machine(&mut self, n: NodeIx, rules: Rules, timing: &Timing) -> Step {
        possible(self.nodes[n].frozen)?;
        self.nodes[n].frozen = false;
        self.nodes[n].enforce(rules, timing);
        Ok(())
    }

    fn forget_process(&mut self, n: NodeIx) {
        let node = &mut self.nodes[n];
        node.paused = false;
        node.starting = None;
        node.releasing = None;
        node.read_index = None;
        self.leads[n] = None;
        for proposal in &mut self.proposals {
            proposal.orphan |= proposal.controller == Some(n);
        }
    }
}

impl super::node::Node {
    fn shim_paused(&self) -> bool {
        self.shim.is_some_and(|shim| shim.paused)
    }
}
