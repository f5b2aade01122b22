//! What the rest of Holm sees of Raft: propose, read, watch. Cheap to clone.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holm_model::planted::{Plant, planted};
use holm_model::{Actor, Command, NodeId, Proposal, Reply, State, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::blocking;
use crate::core::{Core, deadline_after};
use crate::guarded::Guarded;
use crate::identity::Identity;
use crate::peers::Lane;
use crate::rounds::Failure;
use crate::rpc::Proposed;
use crate::transfer::TransferError;

/// Longest wait of a controller for its proposal.
const PROPOSE_HERE: Duration = Duration::from_secs(5);
/// Longest wait of a stop for another node to take over.
const HANDOVER: Duration = Duration::from_millis(2_500);
/// Pause before a read is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// The applied state, as published after each batch of entries.
#[derive(Clone, Debug)]
pub struct Published {
    /// Log index of the last applied entry.
    pub log_index: u64,
    /// A clone of the state; sharing all its parts, so cheap.
    pub state: State,
}

/// An answer that a quorum has made durable and this node has applied.
#[derive(Clone, Debug)]
pub struct Committed {
    pub log_index: u64,
    pub reply: Reply,
}

/// Why a proposal has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// It was not, and will not be, proposed: nothing changed.
    #[error("no leader: {0}")]
    Unavailable(String),
    /// It may or may not take effect. Sending it again with the same key is safe.
    #[error("outcome unknown: {0}")]
    Unknown(String),
    /// Only for [`Handle::propose_here`]: this process does not lead.
    #[error("this node is not the leader")]
    NotLeader,
}

/// Why a linearizable read has no answer.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the current state: {0}")]
pub struct ReadError(pub String);

/// How this member stands in Raft; published on every change.
#[derive(Clone, Debug, Default)]
pub struct RaftStatus {
    pub term: u64,
    /// The leader this node knows of.
    pub leader: Option<NodeId>,
    /// This process leads and has applied its `BeginLeadership`: controllers may decide.
    pub leading: bool,
    /// The cluster said that this node is no longer a member; it never will be again under this id.
    pub removed: bool,
    pub voters: Vec<NodeId>,
    pub learners: Vec<NodeId>,
    pub last_log_index: u64,
    pub applied_index: u64,
    pub snapshot_index: u64,
    pub purged_index: u64,
    /// On the leader: milliseconds since each other member last answered; absent if never in this term.
    pub silent_ms: BTreeMap<NodeId, u64>,
    /// On the leader: how far each other member's log matches.
    pub matched: BTreeMap<NodeId, u64>,
    /// Why no snapshot can be written at present; the log grows meanwhile.
    pub snapshot_problem: Option<String>,
    /// For how long the disk of the log has hung; 0 when it works.
    pub disk_stalled_ms: u64,
}

/// A running member. Dropping it does not stop it; [`stop`](Self::stop) does.
#[derive(Clone)]
pub struct Handle {
    core: Arc<Core>,
    tasks: Arc<Guarded<JoinSet<()>>>,
    peer_addr: SocketAddr,
}

impl Handle {
    pub(crate) fn new(core: Arc<Core>, tasks: JoinSet<()>, peer_addr: SocketAddr) -> Self {
        Self { core, tasks: Arc::new(Guarded::new(tasks)), peer_addr }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub fn identity(&self) -> &Identity {
        &self.core.identity
    }

    pub fn node_id(&self) -> NodeId {
        self.core.node()
    }

    /// Where peers are served, with the port that was taken.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer_addr
    }

    /// Proposes from any node, and answers when the entry is committed and, if time allows, applied here.
    ///
    /// # Errors
    /// See [`ProposeError`]: whether it took effect is told apart.
    pub async fn propose(&self, proposal: Proposal, timeout: Duration) -> Result<Committed, ProposeError> {
        self.core.propose(proposal, timeout).await
    }

    /// Proposes for a controller: only while this process leads, never forwarded.
    ///
    /// # Errors
    /// See [`ProposeError`].
    pub async fn propose_here(&self, command: Command, actor: &str) -> Result<Committed, ProposeError> {
        if !self.core.is_leading() {
            return Err(ProposeError::NotLeader);
        }
        let seen = self.core.state().state.revision;
        let actor = Actor { name: actor.to_owned(), project: String::new() };
        let proposal = Proposal { key: None, seen, actor, command };
        match self.core.propose_as_leader(proposal, Instant::now() + PROPOSE_HERE).await {
            Proposed::Committed { log_index, reply } => Ok(Committed { log_index, reply }),
            Proposed::NotLeader(_) => Err(ProposeError::NotLeader),
            Proposed::Unavailable(why) => Err(ProposeError::Unavailable(why)),
            Proposed::Unknown(why) => Err(ProposeError::Unknown(why)),
        }
    }

    /// A state that holds everything acknowledged before this call, wherever that was.
    ///
    /// # Errors
    /// When no quorum confirms it, or this replica lags, until `timeout`.
    pub async fn read(&self, timeout: Duration) -> Result<Arc<Published>, ReadError> {
        if planted(Plant::LocalRead) {
            return Ok(self.state());
        }
        let deadline = deadline_after(timeout);
        let index = loop {
            let why = match tokio::time::timeout_at(deadline, self.read_index(deadline)).await {
                Ok(Ok(index)) => break index,
                Ok(Err(why)) => why,
                Err(_) => "no quorum confirmed it in time".to_owned(),
            };
            if Instant::now() + PAUSE >= deadline || self.core.is_leaving() {
                return Err(ReadError(why));
            }
            sleep(PAUSE).await;
        };
        let lags = || ReadError(format!("this replica has not applied log index {index} in time"));
        self.core.wait_applied(index, deadline).await.ok_or_else(lags)
    }

    async fn read_index(&self, deadline: Instant) -> Result<u64, String> {
        if self.core.is_leader() {
            match self.core.rounds.read_index().await {
                Err(Failure::NotLeader) => {}
                result => return result.map_err(|error| error.to_string()),
            }
        }
        let leader = self.core.find_leader(deadline).await?;
        if leader == self.core.node() {
            return Err("the leader is changing".to_owned());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let answer = self.core.peers.call(leader, Lane::Calls, left, |client, context, caller| async move {
            client.read_index(context, caller).await
        });
        match self.core.while_leader(leader, answer).await {
            Some(answer) => answer.map_err(|error| error.to_string()),
            None => Err("the leader is changing".to_owned()),
        }
    }

    /// The time as the log has it: for what is held against stamps. Never jumps but by a `SetClock` that is applied.
    pub fn now(&self) -> Timestamp {
        self.core.stamps.now()
    }

    /// The state as applied here, which may lag.
    pub fn state(&self) -> Arc<Published> {
        self.core.state()
    }

    /// The same, at every change.
    pub fn watch(&self) -> watch::Receiver<Arc<Published>> {
        self.core.published.clone()
    }

    pub fn status(&self) -> watch::Receiver<RaftStatus> {
        self.core.status.subscribe()
    }

    /// Hands leadership to `to`, or to the voter that is furthest; answers who took it.
    ///
    /// # Errors
    /// See [`TransferError`].
    pub async fn transfer_leadership(&self, to: Option<NodeId>) -> Result<NodeId, TransferError> {
        self.core.transfer_leadership(to).await
    }

    /// Hands over leadership if it can, makes everything durable and ends all tasks. Answers when the data
    /// directory may be opened again.
    pub async fn stop(&self) {
        if self.core.is_leader() {
            let handed_over = timeout(HANDOVER, self.core.transfer_leadership(None)).await;
            tracing::debug!(?handed_over, "leadership before the stop");
        }
        self.end_tasks().await;
        self.core.store.close().await;
    }

    /// Ends everything but the store.
    pub(crate) async fn end_tasks(&self) {
        self.core.stopping.store(true, Ordering::Relaxed);
        if let Err(error) = self.core.raft.shutdown().await {
            tracing::warn!(%error, "Raft did not end well");
        }
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
        let snapshot_file = self.core.snapshot_file.clone();
        // Waits for one that is being written.
        let _ = blocking::run(move || snapshot_file.close()).await;
    }
}
