//! What the model's cluster agrees on: one record of the one VM, and the commands that change it. Revision
//! and log index are the same thing here: the number of entries up to and including this one.

use super::rule::{Rule, Rules};

/// One of the two nodes, 0 or 1; printed as A and B.
pub type NodeIx = usize;

/// What happens to the VM when its node is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Availability {
    Pinned,
    Failover,
}

/// The VM's allocation on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    pub node: NodeIx,
    pub epoch: u8,
}

/// The replicated state after some entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replicated {
    /// Entries applied so far.
    pub revision: u8,
    /// The revision of the latest `BeginLeadership`.
    pub leadership: u8,
    pub claim: Option<Claim>,
    /// What the user asked for last, and in which entry.
    pub requested: Availability,
    pub request: u8,
    /// What is in force.
    pub effective: Availability,
    /// Which nodes are fenced, and since which entry.
    pub fenced: [Option<u8>; 2],
    /// The freeze of fencing, since which entry.
    pub freeze: Option<u8>,
}

/// A change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    BeginLeadership,
    Place {
        node: NodeIx,
        leadership: u8,
    },
    Fence {
        node: NodeIx,
        leadership: u8,
    },
    Released(Claim),
    /// Frees the claim where rule 1a is left out.
    BuildFailed(Claim),
    Unfence {
        node: NodeIx,
        seen: u8,
    },
    Request(Availability),
    Report {
        claim: Claim,
        availability: Availability,
        request: u8,
    },
    Evacuate {
        node: NodeIx,
    },
    Freeze,
}

impl Replicated {
    /// Before the first entry.
    pub fn new(availability: Availability) -> Self {
        Self {
            revision: 0,
            leadership: 0,
            claim: None,
            requested: availability,
            request: 0,
            effective: availability,
            fenced: [None, None],
            freeze: None,
        }
    }

    /// The state after `command`; a command that is refused changes the revision alone.
    #[must_use]
    pub fn apply(&self, command: Command, rules: Rules) -> Self {
        let mut next = self.clone();
        next.revision += 1;
        match command {
            Command::BeginLeadership => next.leadership = next.revision,
            Command::Freeze => next.freeze = Some(next.revision),
            Command::Place { node, leadership } => {
                let free = self.claim.is_none() || !rules.on(Rule::PlaceAfterCommit);
                if self.decided_now(leadership, rules) && free && self.fenced[node].is_none() {
                    next.claim = Some(Claim { node, epoch: next.revision });
                }
            }
            Command::Fence { node, leadership } => {
                if self.decided_now(leadership, rules) && self.fenced[node].is_none() {
                    next.fence(node, rules);
                }
            }
            Command::Released(claim) | Command::BuildFailed(claim) => {
                if self.claim == Some(claim) {
                    next.end_claim();
                }
            }
            Command::Unfence { node, seen } => {
                let reported_beyond = self.fenced[node].is_some_and(|fence| seen >= fence);
                if reported_beyond || !rules.on(Rule::UnfenceAfterReport) {
                    next.fenced[node] = None;
                }
            }
            Command::Request(availability) => {
                next.requested = availability;
                next.request = next.revision;
                if self.claim.is_none() {
                    next.effective = availability;
                }
            }
            Command::Report { claim, availability, request } => {
                let answers = request == self.request || !rules.on(Rule::ReportNamesRequest);
                if self.claim == Some(claim) && self.requested == availability && answers {
                    next.effective = availability;
                }
            }
            Command::Evacuate { node } => {
                if self.claim.is_some_and(|claim| claim.node == node) {
                    next.end_claim();
                }
            }
        }
        next
    }

    /// The epoch of the VM's claim on `node`.
    pub fn epoch_on(&self, node: NodeIx) -> Option<u8> {
        self.claim.filter(|claim| claim.node == node).map(|claim| claim.epoch)
    }

    fn decided_now(&self, leadership: u8, rules: Rules) -> bool {
        leadership == self.leadership || !rules.on(Rule::CommandsCarryLeadership)
    }

    fn fence(&mut self, node: NodeIx, rules: Rules) {
        self.fenced[node] = Some(self.revision);
        let spared = self.effective == Availability::Pinned && rules.on(Rule::FenceSparesPinned);
        if self.epoch_on(node).is_some() && !spared {
            self.end_claim();
        }
    }

    /// Nobody runs the VM: what was asked for is in force.
    fn end_claim(&mut self) {
        self.claim = None;
        self.effective = self.requested;
    }
}
