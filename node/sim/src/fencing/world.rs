//! One state of everything in the model: the committed log, who leads or believes so, both nodes, and what
//! is on the wire. All clocks are ages and remaining times in ticks, capped, so that two states that differ
//! only in when they happen are one state.
//!
//! What the model takes for granted is what Raft grants: one log; an entry is committed by the process that
//! was elected last, or inherited by the next one before its own first entry; a quorum round completes only
//! for the process elected last. A node's replica may be any prefix of the log.

use super::action::Action;
use super::node::Node;
use super::replicated::{Availability, Command, NodeIx, Replicated};
use super::rule::{Rule, Rules};
use super::time::Timing;

/// How many proposals can be under way.
pub const PROPOSALS: usize = 4;
/// How many messages of a kind can be under way per node.
pub const MESSAGES: usize = 2;

/// A heartbeat, as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heartbeat {
    /// Which process of the node sent it.
    pub process: u8,
    /// Ticks since it was sent.
    pub age: u8,
}

/// A lease on its way to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The heartbeat it answers.
    pub heartbeat: Heartbeat,
    /// How long it lasts, from the sending of the heartbeat.
    pub ttl: u8,
    pub read_index: u8,
}

/// A command on its way into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// The leading node a controller's command comes from; None for what a node reports.
    pub controller: Option<NodeIx>,
    /// The process that proposed it is gone: it can only be inherited.
    pub orphan: bool,
    pub command: Command,
}

/// A quorum round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Round {
    /// The heartbeats that had arrived when it began.
    pub heartbeats: [Option<Heartbeat>; 2],
    pub read_index: u8,
    pub confirmed: bool,
}

/// What a process that believes to lead keeps in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lead {
    /// The revision of its `BeginLeadership`, once committed.
    pub leadership: Option<u8>,
    /// Its own `BeginLeadership` is applied: it serves.
    pub begun: bool,
    /// Ticks since then.
    pub moment: u8,
    /// Ticks since the last grant to each node.
    pub last_grant: [u8; 2],
    /// Ticks for which it has known of the freeze in force.
    pub freeze: u8,
    /// A fence of that node is proposed and its outcome unknown.
    pub fencing: [bool; 2],
    pub inbox: [Option<Heartbeat>; 2],
    pub round: Option<Round>,
    /// Its commit index, as far as it knows.
    pub known: u8,
}

/// What must never happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Violation {
    /// The VM runs on two nodes.
    TwoVmms,
    /// A VMM was started for a claim that had ended.
    EndedEpochStarted { node: NodeIx, epoch: u8 },
    /// A disk was deleted while its claim stood or its VMM ran.
    DiskDeleted { node: NodeIx },
    /// A VMM whose claim stands was stopped as if it did not.
    OwnedVmmStopped { node: NodeIx },
}

/// The step is not possible in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disabled;

/// What a step ends in.
pub type Step = Result<(), Disabled>;

/// One state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The state after each committed entry; the first is the state before any.
    pub(super) log: Vec<Replicated>,
    /// The node elected last.
    pub(super) elected: Option<NodeIx>,
    pub(super) leads: [Option<Lead>; 2],
    pub(super) nodes: [Node; 2],
    pub(super) proposals: Vec<Proposal>,
    pub(super) heartbeats: [Vec<Heartbeat>; 2],
    pub(super) grants: [Vec<Grant>; 2],
    pub(super) violation: Option<Violation>,
}

impl World {
    /// An empty cluster whose VM is asked for as `availability`.
    pub fn new(availability: Availability) -> Self {
        Self {
            log: vec![Replicated::new(availability)],
            elected: None,
            leads: [None, None],
            nodes: [Node::default(), Node::default()],
            proposals: Vec::new(),
            heartbeats: [Vec::new(), Vec::new()],
            grants: [Vec::new(), Vec::new()],
            violation: None,
        }
    }

    /// What went wrong in the last step, if anything did.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// Entries committed so far.
    pub fn committed(&self) -> usize {
        self.log.len() - 1
    }

    /// The state everyone will agree on once they have caught up.
    pub(super) fn truth(&self) -> &Replicated {
        self.log.last().expect("the log begins with the empty state")
    }

    /// The state as `node`'s replica shows it.
    pub(super) fn replica(&self, node: NodeIx) -> &Replicated {
        &self.log[self.nodes[node].applied as usize]
    }

    /// Whether the process on `node` is the one elected last.
    pub(super) fn is_elected(&self, node: NodeIx) -> bool {
        self.elected == Some(node) && self.leads[node].is_some()
    }

    /// Adds an entry to the log. The elected process knows of it.
    pub(super) fn commit(&mut self, command: Command, rules: Rules) {
        let next = self.truth().apply(command, rules);
        let revision = next.revision;
        self.log.push(next);
        if let Some(lead) = self.elected.and_then(|node| self.leads[node].as_mut()) {
            lead.known = revision;
        }
    }

    pub(super) fn propose(&mut self, controller: Option<NodeIx>, command: Command) -> Step {
        let proposal = Proposal { controller, orphan: false, command };
        if self.proposals.len() == PROPOSALS || self.proposals.contains(&proposal) {
            return Err(Disabled);
        }
        self.proposals.push(proposal);
        Ok(())
    }

    /// Records a second VMM, if there is one.
    pub(super) fn look_for_two(&mut self) {
        if self.nodes.iter().all(Node::vmm_alive) {
            self.violation.get_or_insert(Violation::TwoVmms);
        }
    }

    /// One tick of every clock: ages grow, leases run down, and what must be dead by now dies.
    pub(super) fn tick(&mut self, rules: Rules, timing: &Timing) {
        for heartbeat in self.heartbeats.iter_mut().flatten() {
            heartbeat.age = timing.older(heartbeat.age);
        }
        for grant in self.grants.iter_mut().flatten() {
            grant.heartbeat.age = timing.older(grant.heartbeat.age);
        }
        for lead in self.leads.iter_mut().flatten() {
            lead.tick(timing);
        }
        for node in &mut self.nodes {
            node.tick(rules, timing);
        }
    }
}

impl Lead {
    /// A process that has just been elected.
    pub fn elected(known: u8, timing: &Timing) -> Self {
        Self {
            leadership: None,
            begun: false,
            moment: 0,
            last_grant: [timing.cap; 2],
            freeze: 0,
            fencing: [false; 2],
            inbox: [None; 2],
            round: None,
            known,
        }
    }

    fn tick(&mut self, timing: &Timing) {
        self.moment = timing.older(self.moment);
        self.freeze = timing.older(self.freeze);
        for age in &mut self.last_grant {
            *age = timing.older(*age);
        }
        let captured = self.round.iter_mut().flat_map(|round| &mut round.heartbeats);
        for heartbeat in self.inbox.iter_mut().chain(captured).flatten() {
            heartbeat.age = timing.older(heartbeat.age);
        }
    }

    /// Whether every grant of an earlier leader must have ended.
    pub fn waited(&self, rules: Rules, wait: u8) -> bool {
        self.moment >= wait || !rules.on(Rule::WaitSinceLeadership)
    }
}

impl World {
    /// Takes one step, if it is possible here; records what goes wrong by it.
    ///
    /// # Errors
    /// [`Disabled`] where it is not possible; the state is then not to be used further.
    pub fn step(&mut self, action: Action, rules: Rules) -> Step {
        let timing = &Timing::of(rules);
        match action {
            Action::Tick => self.tick(rules, timing),
            Action::Elect(n) => self.elect(n, rules, timing)?,
            Action::CommitBegin(n) => self.commit_begin(n, rules)?,
            Action::BeginRound(n) => self.begin_round(n, rules)?,
            Action::ConfirmRound(n) => self.confirm_round(n)?,
            Action::SendGrant(n, to) => self.send_grant(n, to, rules, timing)?,
            Action::DecideFence(n, of) => self.decide_fence(n, of, rules, timing)?,
            Action::DecidePlace(n, on) => self.decide_place(n, on, rules)?,
            Action::Commit(slot) => self.commit_proposal(slot, rules)?,
            Action::Lose(slot) => self.lose_proposal(slot)?,
            Action::Request(availability) => self.user(Command::Request(availability), rules)?,
            Action::Freeze => self.user(Command::Freeze, rules)?,
            Action::Evacuate(n) => self.evacuate(n, rules)?,
            Action::SendHeartbeat(n) => self.send_heartbeat(n)?,
            Action::DeliverHeartbeat(n, slot, to) => self.deliver_heartbeat(n, slot, to)?,
            Action::DeliverGrant(n, slot) => self.deliver_grant(n, slot, rules, timing)?,
            Action::Apply(n) => self.apply(n, rules, timing)?,
            Action::DecideStart(n) => self.decide_start(n, rules, timing)?,
            Action::Exec(n) => self.exec(n, rules, timing)?,
            Action::ShimStarts(n) => self.shim_starts(n, rules)?,
            Action::VmmExits(n) => self.vmm_exits(n)?,
            Action::ShimDies(n) => self.shim_dies(n, rules)?,
            Action::Stop(n) => self.stop(n, rules)?,
            Action::MarkReleased(n) => self.mark_released(n, rules)?,
            Action::ProposeRelease(n) => self.propose_release(n, rules)?,
            Action::ProposeBuildFailed(n) => self.propose_build_failed(n, rules)?,
            Action::ForgetMark(n) => self.forget_mark(n, rules)?,
            Action::DeleteDirectory(n) => self.delete_directory(n, rules)?,
            Action::Arm(n) => self.arm(n)?,
            Action::ReportFailover(n) => self.report_failover(n, rules)?,
            Action::ReportPinned(n) => self.report_pinned(n)?,
            Action::Disarm(n) => self.disarm(n, rules)?,
            Action::Unbind(n) => self.unbind(n, rules)?,
            Action::ReportClean(n) => self.report_clean(n, rules)?,
            Action::Crash(n) => self.crash(n)?,
            Action::Restart(n, back) => self.restart(n, back, rules, timing)?,
            Action::PowerOff(n) => self.power_off(n, rules)?,
            Action::PowerOn(n) => self.power_on(n, timing)?,
            Action::Pause(n) => self.pause(n)?,
            Action::Resume(n) => self.resume(n, rules, timing)?,
            Action::PauseShim(n) => self.pause_shim(n)?,
            Action::ResumeShim(n) => self.resume_shim(n, rules, timing)?,
            Action::FreezeMachine(n) => self.freeze_machine(n)?,
            Action::ThawMachine(n) => self.thaw_machine(n, rules, timing)?,
        }
        self.look_for_two();
        Ok(())
    }

    /// A user's or an operator's write, which any leader commits at once.
    fn user(&mut self, command: Command, rules: Rules) -> Step {
        let leader = self.elected.ok_or(Disabled)?;
        let begun = self.leads[leader].as_ref().is_some_and(|lead| lead.begun);
        let changes = match command {
            Command::Request(availability) => self.truth().requested != availability,
            _ => self.truth().freeze.is_none(),
        };
        if !begun || !changes || !self.nodes[leader].daemon_runs() {
            return Err(Disabled);
        }
        self.commit(command, rules);
        Ok(())
    }
}
