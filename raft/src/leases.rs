//! Leases, the leader's side (FENCING.md, rules 5 to 10): answers heartbeats with grants, each backed by a quorum
//! round that began after the heartbeat arrived, and lets nobody be fenced who may still hold one. What is decided
//! is in [`ledger`]; here are its clock, its lock and its rounds.

pub mod ledger;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use holm_model::command::FenceNode;
use holm_model::planted::{Plant, planted};
use holm_model::{BootId, Command, NodeId, Revision, State};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::core::{Core, deadline_after};
use crate::guarded::Guarded;
use crate::handle::{Committed, Handle, ProposeError};
use crate::peers::Lane;
use crate::rpc::{Answer, Refused};
use crate::stamps::boot_ms;
use ledger::{Ledger, Refusal};

/// How often the books are kept.
const TICK: Duration = Duration::from_millis(500);
/// Longest wait of the leader for its own round and replica.
const ROUND: Duration = Duration::from_millis(1_500);
/// How long a fence is on its way with [`Plant::GrantRacingFence`].
const PLANTED_DELAY: Duration = Duration::from_secs(10);

/// A node asks for its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    pub boot_id: BootId,
    /// Whether it held a lease when it asked.
    pub holds: bool,
}

/// A lease: it lasts `ttl_ms` from the moment the node *sent* its heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub ttl_ms: u64,
    /// Log index that a replica must have applied to start anything under this lease.
    pub read_index: u64,
}

/// What the leader says to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeartbeatAnswer {
    Granted(Grant),
    /// No lease, and why.
    Refused(String),
}

/// No answer: there is no leader, or it could not be reached, or no quorum could be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no lease: {0}")]
pub struct NoAnswer(pub String);

/// The leader's books, under the lock that keeps grant and fence apart (rule 7).
#[derive(Debug, Default)]
pub(crate) struct Leases {
    ledger: Guarded<Ledger>,
}

/// What controllers may know of the leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseFacts {
    /// Nodes of which every lease has ended.
    pub fenceable: BTreeSet<NodeId>,
    /// Whether leases given under an earlier, longer ttl have ended.
    pub longer_leases_ended: bool,
    /// The freeze whose leases have ended.
    pub thawed: Option<Revision>,
}

/// Keeps the books while this process leads.
pub(crate) async fn run(core: Arc<Core>) {
    loop {
        tokio::time::sleep(TICK).await;
        if !core.is_leading() {
            continue;
        }
        let heard = tokio::time::timeout(ROUND, core.rounds.read_index()).await;
        let heard = matches!(heard, Ok(Ok(_)));
        let published = core.state();
        let mut ledger = core.leases.ledger.lock();
        let now = boot_ms();
        ledger.follow(&published.state, now);
        ledger.tick(now, heard);
    }
}

impl Core {
    /// Answers a heartbeat of `node`, as the leader.
    pub(crate) async fn grant(&self, node: NodeId, beat: Heartbeat) -> Answer<HeartbeatAnswer> {
        if !self.is_leading() {
            return Err(Refused::Failed("this node is not the leader".to_owned()));
        }
        if let Err(refusal) = self.note_heartbeat(node, beat) {
            return Ok(HeartbeatAnswer::Refused(refusal.to_string()));
        }
        // Begins after the heartbeat arrived: whoever leads next is elected after it (rule 6).
        let read_index = match self.lease_round().await {
            Ok(read_index) => read_index,
            Err(why) => return Err(Refused::Failed(why)),
        };
        if self.wait_applied(read_index, deadline_after(ROUND)).await.is_none() {
            return Err(Refused::Failed("the leader's replica lags".to_owned()));
        }
        crate::faults::before_grant(self.identity.cluster);
        let mut ledger = self.leases.ledger.lock();
        // Read under the lock: a fence is published before its outcome is known, so a node that is not being fenced
        // any more shows as fenced. A state read before could miss a fence that began and ended meanwhile.
        let published = self.state();
        let state = &published.state;
        let now = boot_ms();
        if !self.leads_in(state) {
            return Err(Refused::Failed("this node is no longer the leader".to_owned()));
        }
        ledger.follow(state, now);
        if let Err(refusal) = ledger.may_grant(state, node).and_then(|()| same_host(state, node, beat)) {
            return Ok(HeartbeatAnswer::Refused(refusal.to_string()));
        }
        let granted = ledger.grant(state, node, now);
        Ok(HeartbeatAnswer::Granted(Grant { ttl_ms: granted.ttl_ms, read_index }))
    }

    fn note_heartbeat(&self, node: NodeId, beat: Heartbeat) -> Result<(), Refusal> {
        let published = self.state();
        let mut ledger = self.leases.ledger.lock();
        let now = boot_ms();
        ledger.follow(&published.state, now);
        ledger.may_grant(&published.state, node)?;
        ledger.note_heartbeat(&published.state, node, beat.holds, now)
    }

    async fn lease_round(&self) -> Result<u64, String> {
        if planted(Plant::LeaseWithoutQuorum) {
            return Ok(self.state().log_index);
        }
        match tokio::time::timeout(ROUND, self.rounds.read_index()).await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err("no quorum answered in time".to_owned()),
        }
    }

    /// This process leads, in the leadership that `state` holds.
    fn leads_in(&self, state: &State) -> bool {
        let current = self.state().state.leadership;
        self.is_leading() && state.leadership == current
    }
}

/// Two hosts that report under one identity would share a lease: only the one of the record gets it.
fn same_host(state: &State, node: NodeId, beat: Heartbeat) -> Result<(), Refusal> {
    let report = state.nodes.get(&node).and_then(|node| node.report.as_ref());
    match report {
        Some(report) if report.boot_id == beat.boot_id => Ok(()),
        _ => Err(Refusal::OtherHost),
    }
}

impl Handle {
    /// Asks the leader, wherever it is, for this node's lease. The lease counts from before this call.
    ///
    /// # Errors
    /// [`NoAnswer`]; the lease in force goes on to its end.
    pub async fn heartbeat(&self, beat: Heartbeat, timeout: Duration) -> Result<HeartbeatAnswer, NoAnswer> {
        let deadline = deadline_after(timeout);
        let core = self.core();
        let leader = core.find_leader(deadline).await.map_err(NoAnswer)?;
        if leader == core.node() {
            let answer = tokio::time::timeout_at(deadline, core.grant(leader, beat)).await;
            return match answer {
                Ok(answer) => answer.map_err(|refused| NoAnswer(refused.to_string())),
                Err(_) => Err(NoAnswer("no quorum answered in time".to_owned())),
            };
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let answer = core.peers.call(leader, Lane::Calls, left, |client, context, caller| async move {
            client.heartbeat(context, caller, beat).await
        });
        match core.while_leader(leader, answer).await {
            Some(answer) => answer.map_err(|error| NoAnswer(error.to_string())),
            None => Err(NoAnswer("the leader is changing".to_owned())),
        }
    }

    /// What the controllers of this leader may know of the leases; nothing while it does not lead.
    pub fn lease_facts(&self) -> LeaseFacts {
        let core = self.core();
        let published = core.state();
        let state = &published.state;
        if !core.is_leading() {
            return LeaseFacts::default();
        }
        let mut ledger = core.leases.ledger.lock();
        let now = boot_ms();
        ledger.follow(state, now);
        LeaseFacts {
            fenceable: ledger.fenceable(state, now),
            longer_leases_ended: ledger.longer_leases_ended(state, now),
            thawed: ledger.thawed(state, now),
        }
    }

    /// Milliseconds for which each node may still hold a lease of this leader's.
    pub fn leases_left_ms(&self) -> std::collections::BTreeMap<NodeId, u64> {
        let core = self.core();
        if !core.is_leading() {
            return Default::default();
        }
        let ledger = core.leases.ledger.lock();
        let now = boot_ms();
        core.state().state.nodes.keys().map(|node| (*node, ledger.lease_left(*node, now))).collect()
    }

    /// Proposes a fence: from here until its outcome is known the node gets no grant (rule 7).
    ///
    /// # Errors
    /// See [`ProposeError`].
    pub async fn propose_fence(&self, command: FenceNode, actor: &str) -> Result<Committed, ProposeError> {
        let core = self.core();
        let (node, leadership) = (command.node, command.leadership);
        let published = core.state();
        let begun = {
            let mut ledger = core.leases.ledger.lock();
            let now = boot_ms();
            ledger.follow(&published.state, now);
            core.is_leading() && ledger.begin_fence(&published.state, node, now)
        };
        if !begun {
            return Err(ProposeError::Unavailable("the node has been heard again".to_owned()));
        }
        if planted(Plant::GrantRacingFence) {
            tokio::time::sleep(PLANTED_DELAY).await;
        }
        let result = self.propose_here(Command::FenceNode(command), actor).await;
        if matches!(result, Err(ProposeError::Unknown(_))) {
            tokio::spawn(settle(Arc::clone(core), leadership, node));
        } else {
            core.leases.ledger.lock().end_fence(leadership, node);
        }
        result
    }
}

/// Waits until the outcome of a fence is known after all: when an entry that the log orders behind it is applied, it
/// has been applied, or never will be. Another leadership opens new books.
async fn settle(core: Arc<Core>, leadership: Revision, node: NodeId) {
    loop {
        let led = core.state().state.leadership.is_some_and(|now| now.revision == leadership);
        if !led || core.is_leaving() {
            return;
        }
        if let Ok(Ok(_)) = tokio::time::timeout(ROUND, core.raft.write_blank()).await {
            return core.leases.ledger.lock().end_fence(leadership, node);
        }
        tokio::time::sleep(TICK).await;
    }
}
