//! What a daemon hears and asks: messages, proposals and reads through the leader it knows of, and what
//! becomes of whoever waits for an answer that comes, or does not.

use holm_model::command::EndFreeze;
use holm_model::{Command, Reply, Revision};

use super::event::{Event, Ix, Message, Ms, Origin, Process, RoundFor};
use super::node::Waiting;
use super::sim::Sim;

/// How long an answer is waited for.
const PATIENCE: Ms = 5_000;

impl Sim {
    /// A message arrives at a daemon that runs.
    pub fn deliver(&mut self, from: Ix, to: Ix, message: Message) {
        match message {
            Message::Committed { term, committed } => self.committed(from, to, term, committed),
            Message::Heard { term } => {
                let now = self.now;
                let lead = self.daemons[to].lead.as_mut().filter(|lead| lead.term == term);
                if let Some(lead) = lead {
                    lead.heard[from] = Some(now);
                }
            }
            Message::Heartbeat { process, sent_ns, beat } => self.heartbeat(to, process, sent_ns, beat),
            Message::Answer { process, sent_ns, answer } => self.answered(to, process, sent_ns, answer),
            Message::Propose { origin, seen, command } => self.append(to, *command, seen, Some(origin)),
            Message::Proposed { origin, index, reply } => self.proposed(to, origin, index, *reply),
            Message::Read { process, id } => {
                let Some(lead) = &self.daemons[to].lead else { return };
                let (term, leader) = (lead.term, self.daemons[to].process);
                let at = self.now + 1 + self.rng.below(2 * self.network.delay);
                let round = RoundFor::Read { asker: process, id };
                self.heap.push(at, Event::Round { process: leader, term, round });
            }
            Message::ReadIndex { process, id, index } => {
                if self.daemons[to].process == process {
                    self.daemons[to].reads.push((index, id));
                    self.finish_reads(to);
                }
            }
        }
    }

    fn committed(&mut self, from: Ix, to: Ix, term: u64, committed: u64) {
        let daemon = &mut self.daemons[to];
        if term < daemon.term {
            return;
        }
        if term > daemon.term {
            daemon.term = term;
            daemon.lead = None;
        }
        daemon.leader = Some(from);
        daemon.known = daemon.known.max(committed);
        self.apply(to);
        self.send(to, from, Message::Heard { term });
    }

    /// Proposes through the leader this node knows of; what comes of it is heard, or not.
    pub fn propose(&mut self, node: Ix, command: Command, waiting: Waiting) -> u64 {
        let (id, process) = self.wait_for(node, waiting);
        if let Some(leader) = self.daemons[node].leader {
            let origin = Origin { process, id };
            let (seen, command) = (self.daemons[node].state.revision, Box::new(command));
            self.send(node, leader, Message::Propose { origin, seen, command });
        }
        id
    }

    /// Asks the leader for an index that this read must have applied.
    pub fn read(&mut self, node: Ix, waiting: Waiting) {
        let (id, process) = self.wait_for(node, waiting);
        if let Some(leader) = self.daemons[node].leader {
            self.send(node, leader, Message::Read { process, id });
        }
    }

    fn wait_for(&mut self, node: Ix, waiting: Waiting) -> (u64, Process) {
        let daemon = &mut self.daemons[node];
        daemon.next_id += 1;
        let (id, process) = (daemon.next_id, daemon.process);
        daemon.waiting.insert(id, waiting);
        self.heap.push(self.now + PATIENCE, Event::GaveUpWaiting(process, id));
        (id, process)
    }

    pub fn finish_reads(&mut self, node: Ix) {
        let daemon = &mut self.daemons[node];
        let applied = daemon.applied;
        let (done, left) = daemon.reads.drain(..).partition(|(index, _)| *index <= applied);
        daemon.reads = left;
        let done: Vec<(u64, u64)> = done;
        for (_, id) in done {
            let Some(waiting) = self.daemons[node].waiting.remove(&id) else { continue };
            self.has_read(node, waiting);
        }
    }

    fn has_read(&mut self, node: Ix, waiting: Waiting) {
        match waiting {
            Waiting::CatchUp => {
                if !std::mem::replace(&mut self.daemons[node].caught_up, true) {
                    self.note(|| format!("n{} has caught up", node + 1));
                    self.wake_all(node);
                }
            }
            Waiting::Confirm(vm, step) => self.prepare_start(node, vm, step),
            Waiting::GiveUp(vm, step) => self.give_up(node, vm, &step),
            Waiting::LookFenced => self.come_back(node),
            other => unreachable!("{other:?} is not a read"),
        }
    }

    fn proposed(&mut self, node: Ix, origin: Origin, index: u64, reply: Reply) {
        let daemon = &mut self.daemons[node];
        if daemon.process != origin.process {
            return;
        }
        let Some(waiting) = daemon.waiting.remove(&origin.id) else { return };
        daemon.known = daemon.known.max(index.min(self.log.committed()));
        self.apply(node);
        let done = matches!(reply, Reply::Done(_));
        match waiting {
            Waiting::Worker(vm) => self.done(node, vm, done),
            Waiting::Fence(leadership, of) => {
                if let Some(lead) = &mut self.daemons[node].lead {
                    lead.ledger.end_fence(leadership, of);
                }
                self.settle_decision(node, origin.id);
            }
            Waiting::Controller => self.settle_decision(node, origin.id),
            Waiting::Client(request) => self.client_heard(request, &reply),
            _ => {}
        }
    }

    fn settle_decision(&mut self, node: Ix, id: u64) {
        if let Some(lead) = &mut self.daemons[node].lead {
            lead.outstanding.retain(|outstanding| *outstanding != id);
        }
    }

    /// Nothing was heard: whoever waits tries again, for it may or may not have happened.
    pub fn gave_up_waiting(&mut self, process: Process, id: u64) {
        let node = process.node;
        let Some(waiting) = self.daemons[node].waiting.remove(&id) else { return };
        match waiting {
            Waiting::Worker(vm) | Waiting::Confirm(vm, _) | Waiting::GiveUp(vm, _) => {
                self.done(node, vm, false);
            }
            // Unknown: known when a later entry is, which the log orders behind it and which changes nothing.
            Waiting::Fence(..) => {
                let (leadership, freeze) = (Revision(0), Revision(0));
                self.propose(node, Command::EndFreeze(EndFreeze { leadership, freeze }), waiting);
            }
            _ => {}
        }
    }
}
