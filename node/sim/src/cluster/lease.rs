//! Leases: a node's heartbeat, the leader's round and grant, and what the node makes of it. The decisions are
//! the product's ledger and holder; the rules of FENCING.md that hold them together are followed here.

use holm_model::command::{Command, ReportNode, ShortenLease};
use holm_node::lease::holder::Granted;
use holm_node::lease::{self};
use holm_raft::leases::{Grant, Heartbeat, HeartbeatAnswer};

use super::event::{Event, Ix, Message, Process, RoundFor};
use super::host::LeaseFile;
use super::node::Waiting;
use super::sim::{Bug, Sim};
use super::start;

impl Sim {
    /// Once a second a daemon asks for its lease, and says what it is if the record does not know this boot.
    pub fn beat(&mut self, process: Process) {
        let node = process.node;
        self.heap.push(self.now + 1_000, Event::Beat(process));
        let boot_id = self.hosts[node].boot;
        let sent_ns = self.hosts[node].boot_ns(self.now);
        let daemon = &self.daemons[node];
        let holds = daemon.holder.holds(sent_ns);
        let record = daemon.state.nodes.get(&daemon.id()).and_then(|node| node.report.as_ref());
        let reported = record.is_some_and(|report| report.boot_id == boot_id);
        if !reported {
            self.report_node(node);
        }
        if self.daemons[node].fenced() {
            self.read(node, Waiting::LookFenced);
        }
        self.shorten(node);
        if let Some(leader) = self.daemons[node].leader.filter(|_| reported || holds) {
            let beat = Heartbeat { boot_id, holds };
            self.send(node, leader, Message::Heartbeat { process, sent_ns, beat });
        }
    }

    /// A freeze was called off: the lease becomes as short as any other, and then the cluster is told (rule 10).
    fn shorten(&mut self, node: Ix) {
        let now_ns = self.hosts[node].boot_ns(self.now);
        let daemon = &mut self.daemons[node];
        let me = daemon.id();
        let Some(freeze) = daemon.state.freeze.as_ref().filter(|freeze| freeze.over) else { return };
        let waits = |waiting: &Waiting| matches!(waiting, Waiting::ShortenLease);
        if freeze.short.contains(&me) || daemon.waiting.values().any(waits) {
            return;
        }
        let freeze = freeze.revision;
        let lease = daemon.holder.shortened(daemon.state.policy.longest_ttl_ms, now_ns);
        if let Some(lease) = lease {
            daemon.holder.put(lease);
            self.hosts[node].lease = Some(LeaseFile { id: lease.id, deadline_ns: lease.deadline_ns });
            self.look_at_leases(node);
        }
        self.propose(node, Command::ShortenLease(ShortenLease { node: me, freeze }), Waiting::ShortenLease);
    }

    fn report_node(&mut self, node: Ix) {
        let waits = |waiting: &Waiting| matches!(waiting, Waiting::NodeReport);
        if self.daemons[node].waiting.values().any(waits) {
            return;
        }
        let command = Command::ReportNode(ReportNode {
            node: self.daemons[node].id(),
            sequence: self.hosts[node].boot_ns(self.now),
            peer_addr: start::peer_addr(node),
            api_addr: start::api_addr(node),
            report: start::report(self.hosts[node].boot),
        });
        self.propose(node, command, Waiting::NodeReport);
    }

    /// A heartbeat reaches a process that leads, or believes so: it is noted, and a round is begun.
    pub fn heartbeat(&mut self, to: Ix, asker: Process, sent_ns: u64, beat: Heartbeat) {
        let now_ms = self.leader_ms(to);
        let daemon = &mut self.daemons[to];
        let Some(lead) = daemon.lead.as_mut().filter(|lead| lead.begun_at.is_some()) else { return };
        let of = super::node::id(asker.node);
        lead.ledger.follow(&daemon.state, now_ms);
        let noted = lead.ledger.may_grant(&daemon.state, of);
        let noted = noted.and_then(|()| lead.ledger.note_heartbeat(&daemon.state, of, beat.holds, now_ms));
        let (term, process) = (lead.term, daemon.process);
        if let Err(refusal) = noted {
            let answer = HeartbeatAnswer::Refused(refusal.to_string());
            return self.send(to, asker.node, Message::Answer { process: asker, sent_ns, answer });
        }
        let at = self.now + 1 + self.rng.below(2 * self.network.delay);
        let round = RoundFor::Grant { asker, sent_ns, beat };
        self.heap.push(at, Event::Round { process, term, round });
    }

    /// A round has had its time: it is complete if this process still leads and a majority hears it.
    pub fn round(&mut self, process: Process, term: u64, round: RoundFor) {
        let node = process.node;
        let complete = self.log.leader == Some(node) && self.log.term == term && self.has_majority(node);
        let now_ms = self.leader_ms(node);
        let unasked = self.has(Bug::GrantWithoutQuorum);
        let Some(lead) = self.daemons[node].lead.as_mut().filter(|lead| lead.term == term) else { return };
        match round {
            RoundFor::Tick => {
                if lead.begun_at.is_some() {
                    lead.ledger.tick(now_ms, complete);
                }
            }
            RoundFor::Read { asker, id } if complete && lead.begun_at.is_some() => {
                let index = self.log.committed();
                self.send(node, asker.node, Message::ReadIndex { process: asker, id, index });
            }
            RoundFor::Grant { asker, sent_ns, beat } if complete || unasked => {
                self.grant(node, asker, sent_ns, beat);
            }
            RoundFor::Read { .. } | RoundFor::Grant { .. } => {}
        }
    }

    fn grant(&mut self, node: Ix, asker: Process, sent_ns: u64, beat: Heartbeat) {
        let now_ms = self.leader_ms(node);
        let daemon = &mut self.daemons[node];
        let Some(lead) = &mut daemon.lead else { return };
        let (state, of) = (&daemon.state, super::node::id(asker.node));
        lead.ledger.follow(state, now_ms);
        let reported = state.nodes.get(&of).and_then(|node| node.report.as_ref());
        let same_host = reported.is_some_and(|report| report.boot_id == beat.boot_id);
        let answer = match lead.ledger.may_grant(state, of) {
            Ok(()) if same_host => {
                let ttl_ms = lead.ledger.grant(state, of, now_ms).ttl_ms;
                HeartbeatAnswer::Granted(Grant { ttl_ms, read_index: daemon.applied })
            }
            Ok(()) => HeartbeatAnswer::Refused("another host".to_owned()),
            Err(refusal) => HeartbeatAnswer::Refused(refusal.to_string()),
        };
        self.send(node, asker.node, Message::Answer { process: asker, sent_ns, answer });
    }

    /// The answer reaches the node; it counts for the process that asked.
    pub fn answered(&mut self, node: Ix, asker: Process, sent_ns: u64, answer: HeartbeatAnswer) {
        let grant = match answer {
            HeartbeatAnswer::Granted(grant) => grant,
            HeartbeatAnswer::Refused(why) => {
                return self.note(|| format!("n{} gets no lease: {why}", node + 1));
            }
        };
        let daemon = &mut self.daemons[node];
        if daemon.process != asker {
            return;
        }
        let now_ns = self.hosts[node].boot_ns(self.now);
        let longest_ms = match &daemon.state.freeze {
            Some(freeze) if !freeze.over => u64::MAX,
            _ => daemon.state.policy.longest_ttl_ms,
        };
        let ttl_ms = grant.ttl_ms.min(longest_ms);
        let granted = Granted { sent_ns, ttl_ms, read_index: grant.read_index };
        let before = daemon.holder.lease();
        let Some(lease) = daemon.holder.with(granted, now_ns) else { return };
        daemon.holder.put(lease);
        self.hosts[node].lease = Some(LeaseFile { id: lease.id, deadline_ns: lease.deadline_ns });
        if before.map(|before| (before.id, before.read_index.is_some())) != Some((lease.id, true)) {
            let id = lease.id;
            self.note(|| format!("n{} holds lease {id}", node + 1));
            self.look_at_leases(node);
            self.wake_all(node);
        }
    }

    /// What the lease allows, with the replica as it is.
    pub fn standing_of_lease(&self, node: Ix) -> lease::Standing {
        let daemon = &self.daemons[node];
        let now_ns = self.hosts[node].boot_ns(self.now);
        match daemon.holder.lease().filter(|lease| lease.lives(now_ns)) {
            None => lease::Standing::None,
            Some(lease) if lease.read_index.is_some_and(|seen| seen <= daemon.applied) => {
                lease::Standing::Ready(lease.id)
            }
            Some(lease) => lease::Standing::Behind(lease.id),
        }
    }
}
