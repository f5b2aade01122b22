//! What can happen next, and the heap of it: by time, then by the order in which it was asked for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use holm_model::{Command, Reply, Revision, VmId};
use holm_node::agent::plan::Step;
use holm_raft::leases::{Heartbeat, HeartbeatAnswer};
use holm_vmm::hypervisor::ExitCause;

/// One of the nodes, counted from 0; the product's node id is one more.
pub type Ix = usize;
/// Milliseconds since the simulation began.
pub type Ms = u64;

/// Which run of which node's daemon something belongs to: what an earlier one began is nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub node: Ix,
    pub number: u64,
}

/// What a message says.
#[derive(Clone, Debug)]
pub enum Message {
    /// The leader of `term` has committed entries up to `committed`.
    Committed {
        term: u64,
        committed: u64,
    },
    /// To that.
    Heard {
        term: u64,
    },
    Heartbeat {
        process: Process,
        sent_ns: u64,
        beat: Heartbeat,
    },
    Answer {
        process: Process,
        sent_ns: u64,
        answer: HeartbeatAnswer,
    },
    Propose {
        origin: Origin,
        /// What its maker had applied; it may be long under way.
        seen: Revision,
        command: Box<Command>,
    },
    Proposed {
        origin: Origin,
        index: u64,
        reply: Box<Reply>,
    },
    Read {
        process: Process,
        id: u64,
    },
    ReadIndex {
        process: Process,
        id: u64,
        index: u64,
    },
}

/// Who waits for a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub process: Process,
    pub id: u64,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Event {
    Deliver {
        from: Ix,
        to: Ix,
        message: Message,
    },
    /// A daemon does what it does from time to time.
    Beat(Process),
    Look(Process),
    Lead(Process),
    /// A worker looks at its VM; or what it was doing is done.
    Work(Process, VmId),
    Performed(Process, VmId, Step),
    GaveUpWaiting(Process, u64),
    /// The shim of a run is through with its exec.
    ShimReady {
        node: Ix,
        vm: VmId,
        start: u64,
    },
    /// A shim looks at its lease.
    LeaseDue {
        node: Ix,
        vm: VmId,
        start: u64,
    },
    Killed {
        node: Ix,
        vm: VmId,
        start: u64,
        cause: ExitCause,
    },
    GuestEnds {
        node: Ix,
        vm: VmId,
        start: u64,
        cause: ExitCause,
    },
    /// A quorum round of a leader has had its time.
    Round {
        process: Process,
        term: u64,
        round: RoundFor,
    },
    Commit {
        term: u64,
    },
    Election,
    Client,
    Operator,
    Fault,
    Restart(Ix),
    Heal,
}

/// What a round is for.
#[derive(Clone, Debug)]
pub enum RoundFor {
    Grant { asker: Process, sent_ns: u64, beat: Heartbeat },
    Read { asker: Process, id: u64 },
    Tick,
}

/// Events to come.
#[derive(Debug, Default)]
pub struct Heap {
    heap: BinaryHeap<Reverse<(Ms, u64)>>,
    events: std::collections::BTreeMap<u64, Event>,
    next: u64,
}

impl Heap {
    /// `event` happens at `at`.
    pub fn push(&mut self, at: Ms, event: Event) {
        self.heap.push(Reverse((at, self.next)));
        self.events.insert(self.next, event);
        self.next += 1;
    }

    /// The next event and its time.
    pub fn pop(&mut self) -> Option<(Ms, Event)> {
        let Reverse((at, number)) = self.heap.pop()?;
        let event = self.events.remove(&number).expect("every number in the heap has its event");
        Some((at, event))
    }
}
