//! One node's daemon in memory: its replica, its lease holder, its workers, whom it waits for, and its
//! leadership if it believes to have one. All of it goes with the process.

use std::collections::BTreeMap;

use holm_model::{NodeId, Revision, State, VmId};
use holm_node::agent::plan::Step;
use holm_node::lease::Holder;
use holm_raft::leases::ledger::Ledger;

use super::event::{Ix, Ms, Process};

/// A daemon.
#[derive(Debug)]
pub struct Daemon {
    pub up: bool,
    pub process: Process,
    pub paused_until: Ms,
    /// Its replica applies nothing until then.
    pub lags_until: Ms,
    pub started_at: Ms,
    pub state: State,
    pub applied: u64,
    /// The highest index it knows to be committed.
    pub known: u64,
    pub term: u64,
    pub leader: Option<Ix>,
    pub caught_up: bool,
    pub holder: Holder,
    /// The greatest read index of the lease in force, kept beside it as the product does.
    pub workers: BTreeMap<VmId, Worker>,
    pub waiting: BTreeMap<u64, Waiting>,
    /// Reads that wait for an index to be applied.
    pub reads: Vec<(u64, u64)>,
    pub next_id: u64,
    pub lead: Option<Lead>,
}

/// One worker.
#[derive(Debug)]
pub struct Worker {
    pub busy: bool,
    /// A look is asked for already.
    pub woken: bool,
    pub seen: Option<Revision>,
    pub last: Option<Step>,
    pub backoff: Ms,
}

impl Default for Worker {
    fn default() -> Self {
        Self { busy: false, woken: false, seen: None, last: None, backoff: BACKOFF }
    }
}

/// Pause after a step that failed or repeats.
pub const BACKOFF: Ms = 250;

/// What an answer is waited for.
#[derive(Clone, Debug)]
pub enum Waiting {
    /// A worker's report or release.
    Worker(VmId),
    NodeReport,
    Unfence,
    ShortenLease,
    Controller,
    Fence(Revision, NodeId),
    CatchUp,
    /// The read before a step.
    Confirm(VmId, Step),
    /// The read before a build is given up.
    GiveUp(VmId, Step),
    LookFenced,
    Client(u64),
    Operator,
}

/// A leadership, as the process sees it.
#[derive(Debug)]
pub struct Lead {
    pub term: u64,
    /// Its own BeginLeadership is applied, since.
    pub begun_at: Option<Ms>,
    pub ledger: Ledger,
    /// When each node was last heard.
    pub heard: Vec<Option<Ms>>,
    /// Controllers' proposals whose outcome is unknown, and until when they are waited for.
    pub outstanding: Vec<u64>,
    pub outstanding_until: Ms,
}

impl Daemon {
    /// A daemon that starts with what a replica had come to.
    pub fn new(process: Process, now: Ms, state: State, applied: u64, holder: Holder) -> Self {
        Self {
            up: true,
            process,
            paused_until: 0,
            lags_until: 0,
            started_at: now,
            state,
            applied,
            known: applied,
            term: 0,
            leader: None,
            caught_up: false,
            holder,
            workers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            reads: Vec::new(),
            next_id: 0,
            lead: None,
        }
    }

    /// Its id in the product.
    pub fn id(&self) -> NodeId {
        id(self.process.node)
    }

    /// Whether the state says that it is fenced.
    pub fn fenced(&self) -> bool {
        self.state.nodes.get(&self.id()).is_some_and(|node| node.fence.is_some())
    }
}

/// The product's id of node `ix`.
pub fn id(ix: Ix) -> NodeId {
    NodeId(ix as u64 + 1)
}
