//! What a process does that leads or believes so: begin, rounds, grants, fences, placements; and what
//! becomes of proposals.

use super::replicated::{Command, NodeIx};
use super::rule::{Rule, Rules};
use super::time::Timing;
use super::world::{Disabled, Grant, Lead, MESSAGES, Round, Step, World};

impl World {
    /// `node` wins an election. Whoever led before goes on believing it until told.
    pub(super) fn elect(&mut self, node: NodeIx, rules: Rules, timing: &Timing) -> Step {
        possible(self.nodes[node].daemon_runs() && !self.is_elected(node))?;
        let mut lead = Lead::elected(self.replica(node).revision, timing);
        if !rules.on(Rule::BeginLeadership) {
            lead.begun = true;
            lead.leadership = Some(self.truth().leadership);
        }
        self.leads[node] = Some(lead);
        self.elected = Some(node);
        Ok(())
    }

    /// The elected process' own entry is committed; what its predecessors left behind is lost by then,
    /// unless its proposer may lead once more.
    pub(super) fn commit_begin(&mut self, node: NodeIx, rules: Rules) -> Step {
        possible(self.is_elected(node) && rules.on(Rule::BeginLeadership))?;
        possible(self.leads[node].as_ref().is_some_and(|lead| lead.leadership.is_none()))?;
        self.commit(Command::BeginLeadership, rules);
        let revision = self.truth().revision;
        self.lead(node)?.leadership = Some(revision);
        self.proposals.retain(|proposal| !proposal.orphan);
        Ok(())
    }

    /// Called when `node` has applied an entry: its own BeginLeadership opens its leadership.
    pub(super) fn applied_as_leader(&mut self, node: NodeIx) {
        let applied = self.nodes[node].applied;
        let freeze = self.replica(node).freeze;
        let Some(lead) = self.leads[node].as_mut() else { return };
        if !lead.begun && lead.leadership.is_some_and(|leadership| applied >= leadership) {
            lead.begun = true;
            lead.moment = 0;
            lead.freeze = 0;
        }
        if freeze == Some(applied) {
            lead.freeze = 0;
        }
        let state = &self.log[applied as usize];
        for other in 0..2 {
            if state.fenced[other].is_some() {
                lead.fencing[other] = false;
            }
        }
    }

    /// The read index is the commit index as the process knows it: once its own BeginLeadership is committed
    /// that is everything, and where that rule is left out it may be less than its own log holds.
    pub(super) fn begin_round(&mut self, node: NodeIx, rules: Rules) -> Step {
        possible(rules.on(Rule::QuorumBackedGrant))?;
        let lead = self.serving(node)?;
        possible(lead.inbox.iter().any(Option::is_some))?;
        lead.round = Some(Round { heartbeats: lead.inbox, read_index: lead.known, confirmed: false });
        lead.inbox = [None; 2];
        Ok(())
    }

    /// A quorum answers the round, which it does only for the process elected last. The process itself may
    /// stand still meanwhile.
    pub(super) fn confirm_round(&mut self, node: NodeIx) -> Step {
        possible(self.is_elected(node))?;
        let round = self.lead(node)?.round.as_mut().ok_or(Disabled)?;
        possible(!round.confirmed)?;
        round.confirmed = true;
        Ok(())
    }

    pub(super) fn send_grant(&mut self, node: NodeIx, to: NodeIx, rules: Rules, timing: &Timing) -> Step {
        let state = self.replica(node);
        let fenced = state.fenced[to].is_some() && rules.on(Rule::GrantChecksAgain);
        let frozen = state.freeze.is_some() && rules.on(Rule::FreezeFromSend);
        let lead = self.serving(node)?;
        let fencing = lead.fencing[to] && rules.on(Rule::NoGrantWhileFencing);
        possible(!fenced && !fencing)?;
        let (heartbeat, read_index) = lead.answerable(to, rules).ok_or(Disabled)?;
        let remaining = if frozen { timing.freeze.saturating_sub(lead.freeze) } else { 0 };
        lead.last_grant[to] = 0;
        let grants = &mut self.grants[to];
        if grants.len() == MESSAGES {
            grants.remove(0);
        }
        grants.push(Grant { heartbeat, ttl: timing.ttl + remaining, read_index });
        Ok(())
    }

    pub(super) fn decide_fence(&mut self, node: NodeIx, of: NodeIx, rules: Rules, timing: &Timing) -> Step {
        let state = self.replica(node);
        possible(state.fenced[of].is_none())?;
        let frozen = state.freeze.is_some();
        let lead = self.serving(node)?;
        let wait = timing.ttl + timing.margin;
        let granted = lead.last_grant[of] < wait && rules.on(Rule::WaitSinceGrant);
        possible(!granted && lead.waited(rules, wait))?;
        possible(!frozen || lead.freeze >= timing.freeze + wait)?;
        let leadership = lead.leadership.ok_or(Disabled)?;
        lead.fencing[of] = true;
        self.propose(Some(node), Command::Fence { node: of, leadership })
    }

    pub(super) fn decide_place(&mut self, node: NodeIx, on: NodeIx, rules: Rules) -> Step {
        let state = self.replica(node);
        let (fenced, claim) = (state.fenced[on].is_some(), state.claim);
        let lead = self.serving(node)?;
        let soon_free = claim.is_some_and(|claim| lead.fencing[claim.node] && claim.node != on);
        possible(!fenced && (claim.is_none() || soon_free && !rules.on(Rule::PlaceAfterCommit)))?;
        let leadership = lead.leadership.ok_or(Disabled)?;
        self.propose(Some(node), Command::Place { node: on, leadership })
    }

    /// A proposal under way is committed: a node's by any leader, a controller's by the process that made it
    /// if it leads (again), or by a new leader that inherits it and has not committed its own entry yet.
    pub(super) fn commit_proposal(&mut self, slot: usize, rules: Rules) -> Step {
        let proposal = *self.proposals.get(slot).ok_or(Disabled)?;
        let elected = self.elected.ok_or(Disabled)?;
        let lead = self.leads[elected].as_ref();
        if let Some(controller) = proposal.controller {
            let inherits = lead.is_some_and(|lead| lead.leadership.is_none());
            possible(controller == elected && lead.is_some() && !proposal.orphan || inherits)?;
        } else {
            possible(lead.is_some_and(|lead| lead.begun))?;
        }
        self.proposals.remove(slot);
        self.commit(proposal.command, rules);
        Ok(())
    }

    /// A proposal is lost for good, and a leader that waits for it learns that.
    pub(super) fn lose_proposal(&mut self, slot: usize) -> Step {
        possible(slot < self.proposals.len())?;
        let proposal = self.proposals.remove(slot);
        if let (Some(node), Command::Fence { node: of, .. }) = (proposal.controller, proposal.command)
            && let Some(lead) = self.leads[node].as_mut().filter(|_| !proposal.orphan)
        {
            lead.fencing[of] = false;
        }
        Ok(())
    }

    fn lead(&mut self, node: NodeIx) -> Result<&mut Lead, Disabled> {
        self.leads[node].as_mut().ok_or(Disabled)
    }

    /// The leader's memory, if its process runs and may serve.
    fn serving(&mut self, node: NodeIx) -> Result<&mut Lead, Disabled> {
        possible(self.nodes[node].daemon_runs())?;
        self.leads[node].as_mut().filter(|lead| lead.begun).ok_or(Disabled)
    }
}

impl Lead {
    /// The heartbeat of `from` that a grant may answer now, used up by it, and the read index to send.
    fn answerable(&mut self, from: NodeIx, rules: Rules) -> Option<(super::world::Heartbeat, u8)> {
        if !rules.on(Rule::QuorumBackedGrant) {
            return self.inbox[from].take().map(|heartbeat| (heartbeat, self.known));
        }
        let round = self.round.as_mut().filter(|round| round.confirmed)?;
        let read_index = round.read_index;
        let later = self.inbox[from].filter(|_| !rules.on(Rule::RoundAfterArrival));
        if let Some(heartbeat) = later {
            self.inbox[from] = None;
            return Some((heartbeat, read_index));
        }
        round.heartbeats[from].take().map(|heartbeat| (heartbeat, read_index))
    }
}

/// Whether a step can be taken.
pub(super) fn possible(condition: bool) -> Step {
    if condition { Ok(()) } else { Err(Disabled) }
}
