//! Leadership: elections, the way of a proposal into the log and back, and the leader's controllers.

use std::collections::BTreeMap;

use holm_model::command::BeginLeadership;
use holm_model::{Command, Entry, Incarnation, NodeId, Reply, Revision};
use holm_raft::leases::ledger::Ledger;
use holm_sched::Facts;
use uuid::Uuid;

use super::event::{Event, Ix, Message, Ms, Origin, Process, RoundFor};
use super::log::Pending;
use super::node::{Lead, Waiting, id};
use super::sim::{Bug, NODES, Sim};
use super::start;

/// How often the leader's controllers look.
const PERIOD: Ms = 500;

impl Sim {
    /// Looks, a few times a second, whether somebody leads who can, and elects somebody when that has lasted.
    pub fn election(&mut self) {
        self.heap.push(self.now + 100, Event::Election);
        let leads = self.log.leader.is_some_and(|leader| {
            self.has_majority(leader)
                && self.daemons[leader].lead.as_ref().is_some_and(|l| l.term == self.log.term)
        });
        if leads {
            self.log.leaderless_since = None;
            if let Some(leader) = self.log.leader.filter(|_| self.now.is_multiple_of(200)) {
                self.tell_committed(leader);
            }
            return;
        }
        let since = *self.log.leaderless_since.get_or_insert(self.now);
        if self.now - since < self.log.patience {
            return;
        }
        let candidates: Vec<Ix> = (0..NODES).filter(|node| self.has_majority(*node)).collect();
        if candidates.is_empty() {
            return;
        }
        let elected = candidates[self.rng.below(candidates.len() as u64) as usize];
        self.elect(elected);
    }

    /// `node` leads from now on; of what its predecessor had appended it has a part.
    pub fn elect(&mut self, node: Ix) {
        self.log.term += 1;
        self.log.leader = Some(node);
        self.log.leaderless_since = None;
        self.log.patience = 500 + self.rng.below(400);
        self.figures.leaders += 1;
        let inherited = self.rng.below(self.log.pending.len() as u64 + 1) as usize;
        let inherited: Vec<Pending> = self.log.pending.drain(..inherited).collect();
        self.log.pending.clear();
        for pending in inherited {
            self.append_committed(Pending { origin: None, ..pending });
        }
        let term = self.log.term;
        self.note(|| format!("n{} is elected for term {term}", node + 1));
        let daemon = &mut self.daemons[node];
        daemon.term = term;
        daemon.leader = Some(node);
        daemon.known = self.log.entries.len() as u64;
        daemon.lead = Some(Lead {
            term,
            begun_at: None,
            ledger: Ledger::default(),
            heard: vec![None; NODES],
            outstanding: Vec::new(),
            outstanding_until: 0,
        });
        let incarnation = Incarnation(Uuid::from_u128(u128::from(term)));
        let begin = Command::BeginLeadership(BeginLeadership { node: id(node), term, incarnation });
        let process = self.daemons[node].process;
        self.apply(node);
        let seen = self.daemons[node].state.revision;
        self.append(node, begin, seen, None);
        self.heap.push(self.now + PERIOD, Event::Lead(process));
    }

    /// The leader adds an entry to its log. A process that leads no more adds what nobody will see.
    pub fn append(&mut self, node: Ix, command: Command, seen: Revision, origin: Option<Origin>) {
        let daemon = &self.daemons[node];
        let Some(lead) = &daemon.lead else { return };
        let begins = matches!(command, Command::BeginLeadership(_));
        if self.log.leader != Some(node) || lead.term != self.log.term || lead.begun_at.is_none() && !begins {
            return;
        }
        let entry = start::entry(self.now, seen, "sim", command);
        self.log.pending.push_back(Pending { entry, origin });
        let at = self.now + 2 + self.rng.below(2 * self.network.delay);
        self.heap.push(at, Event::Commit { term: self.log.term });
    }

    /// A majority has what the leader appended, if there is one; else it is tried again.
    pub fn commit(&mut self, term: u64) {
        let Some(leader) = self.log.leader.filter(|_| self.log.term == term) else { return };
        if self.log.pending.is_empty() {
            return;
        }
        if !self.has_majority(leader) {
            return self.heap.push(self.now + 100, Event::Commit { term });
        }
        while let Some(pending) = self.log.pending.pop_front() {
            self.append_committed(pending);
        }
        self.daemons[leader].known = self.log.committed();
        self.apply(leader);
        self.tell_committed(leader);
    }

    fn append_committed(&mut self, pending: Pending) {
        if let Command::FenceNode(_) = pending.entry.proposal.command {
            self.figures.fences += 1;
        }
        self.log.entries.push(pending.entry);
        self.log.origins.push(pending.origin);
    }

    fn tell_committed(&mut self, leader: Ix) {
        let message = Message::Committed { term: self.log.term, committed: self.daemons[leader].applied };
        for peer in (0..NODES).filter(|peer| *peer != leader) {
            self.send(leader, peer, message.clone());
        }
    }

    /// Applies what is known to be committed, and looks at what that changes.
    pub fn apply(&mut self, node: Ix) {
        if self.daemons[node].lags_until > self.now {
            return;
        }
        let before = self.daemons[node].applied;
        while self.daemons[node].applied < self.daemons[node].known {
            let at = self.daemons[node].applied as usize;
            let entry = self.altered(node, at);
            let applied = holm_model::apply(&mut self.daemons[node].state, &entry);
            self.daemons[node].applied += 1;
            self.compare(node);
            if self.log.leader == Some(node)
                && let Some(origin) = self.log.origins[at].take()
            {
                self.answer(node, origin, at as u64 + 1, applied.reply);
            }
        }
        if self.daemons[node].applied != before {
            self.applied(node);
        }
    }

    /// The entry at `at`, changed where that bug was asked for.
    fn altered(&self, node: Ix, at: usize) -> Entry {
        let mut entry = self.log.entries[at].clone();
        if self.has(Bug::ImpureApply) && node == 2 {
            entry.at.0 += 1;
        }
        entry
    }

    fn answer(&mut self, node: Ix, origin: Origin, index: u64, reply: Reply) {
        let message = Message::Proposed { origin, index, reply: Box::new(reply) };
        self.send(node, origin.process.node, message);
    }

    /// What follows for a leader from what it applied: its own BeginLeadership opens its leadership.
    pub fn applied_as_leader(&mut self, node: Ix) {
        let now = self.now;
        let daemon = &mut self.daemons[node];
        let leadership = daemon.state.leadership;
        let Some(lead) = daemon.lead.as_mut().filter(|lead| lead.begun_at.is_none()) else { return };
        if leadership.is_some_and(|leadership| leadership.term == lead.term) {
            lead.begun_at = Some(now);
        }
    }

    /// One look of the controllers, each decision waiting for the outcome of the one before.
    pub fn lead(&mut self, process: Process) {
        let node = process.node;
        let Some(lead) = &self.daemons[node].lead else { return };
        let term = lead.term;
        self.heap.push(self.now + PERIOD, Event::Lead(process));
        let round = Event::Round { process, term, round: RoundFor::Tick };
        self.heap.push(self.now + 2 * self.network.delay, round);
        let lead = self.daemons[node].lead.as_ref().expect("it was there a moment ago");
        if lead.begun_at.is_none() || !lead.outstanding.is_empty() && lead.outstanding_until > self.now {
            return;
        }
        let facts = self.facts(node);
        let state = self.daemons[node].state.clone();
        if let Some(lead) = &mut self.daemons[node].lead {
            lead.outstanding.clear();
            lead.outstanding_until = self.now + 3_000;
        }
        for n in 0..self.controllers.len() {
            let commands = self.controllers[n].decide(&state, &facts);
            let decided = !commands.is_empty();
            for command in commands {
                self.decide(node, command);
            }
            if decided {
                break;
            }
        }
    }

    fn decide(&mut self, node: Ix, command: Command) {
        let now_ms = self.leader_ms(node);
        let unasked = self.has(Bug::FenceWithoutWait);
        let waiting = match &command {
            Command::FenceNode(fence) => {
                let daemon = &mut self.daemons[node];
                let Some(lead) = &mut daemon.lead else { return };
                if !lead.ledger.begin_fence(&daemon.state, fence.node, now_ms) && !unasked {
                    return;
                }
                Waiting::Fence(fence.leadership, fence.node)
            }
            _ => Waiting::Controller,
        };
        let name = command.name();
        self.note(|| format!("n{} decides {name}", node + 1));
        let id = self.propose(node, command, waiting);
        if let Some(lead) = &mut self.daemons[node].lead {
            lead.outstanding.push(id);
        }
    }

    /// Milliseconds on the leader's own clock.
    pub fn leader_ms(&self, node: Ix) -> u64 {
        self.hosts[node].boot_ns(self.now) / 1_000_000
    }

    fn facts(&mut self, node: Ix) -> Facts {
        let now_ms = self.leader_ms(node);
        let fence_silent = self.has(Bug::FenceWithoutWait);
        let daemon = &mut self.daemons[node];
        let Some(lead) = &mut daemon.lead else { return Facts::default() };
        let began = lead.begun_at.unwrap_or(self.now);
        let listened = self.now - began;
        let silent = |of: &NodeId| {
            let ix = of.0 as usize - 1;
            let heard = lead.heard.get(ix).copied().flatten();
            if ix == node { 0 } else { heard.map_or(Ms::MAX, |heard| self.now - heard) }
        };
        let silent_ms: BTreeMap<NodeId, u64> =
            daemon.state.nodes.keys().map(|of| (*of, silent(of).min(listened))).collect();
        let unheard = daemon.state.nodes.keys().filter(|of| silent(of) > listened).copied().collect();
        lead.ledger.follow(&daemon.state, now_ms);
        let mut fenceable = lead.ledger.fenceable(&daemon.state, now_ms);
        if fence_silent {
            fenceable.extend(silent_ms.iter().filter(|(_, silent)| **silent >= 2_000).map(|(of, _)| *of));
        }
        Facts {
            now: start::stamp(self.now),
            silent_ms,
            unheard,
            fenceable,
            longer_leases_ended: lead.ledger.longer_leases_ended(&daemon.state, now_ms),
            thawed: lead.ledger.thawed(&daemon.state, now_ms),
        }
    }
}
