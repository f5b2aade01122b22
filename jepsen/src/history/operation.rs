//! An operation: one request to one node, and what its client knows of it. Faults lie on the same clock.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::harness::client::{Error, Reply};

/// What a client knows of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "answer", rename_all = "kebab-case")]
pub enum Outcome<A> {
    /// It took effect.
    Ok(A),
    /// It did not take effect and never will.
    Fail(Refusal),
    /// It may have taken effect, or may yet: a time-out, a lost connection, an answer that says so.
    Info(String),
}

/// Why nothing happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Of the problem; `not_sent` where there was no connection.
    pub code: String,
    pub detail: String,
}

impl<A> Outcome<A> {
    /// From what the client got; `answer` keeps of a success what the checkers need.
    pub fn of<T>(result: Result<Reply<T>, Error>, answer: impl FnOnce(Reply<T>) -> A) -> Self {
        match result {
            Ok(reply) => Self::Ok(answer(reply)),
            Err(Error::Refused(problem)) => {
                Self::Fail(Refusal { code: problem.code.as_str().to_owned(), detail: problem.detail })
            }
            Err(Error::NotSent(detail)) => Self::Fail(Refusal { code: "not_sent".to_owned(), detail }),
            Err(Error::Unknown(detail)) => Self::Info(detail),
        }
    }

    pub fn ok(&self) -> Option<&A> {
        match self {
            Self::Ok(answer) => Some(answer),
            Self::Fail(_) | Self::Info(_) => None,
        }
    }

    pub fn is_info(&self) -> bool {
        matches!(self, Self::Info(_))
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation<C, A> {
    /// Position among the operations, by their beginning.
    pub id: usize,
    /// The client's process; an unknown outcome ends it and the client goes on as another.
    pub process: u64,
    /// The node that was asked.
    pub node: String,
    pub call: C,
    pub outcome: Outcome<A>,
    /// Nanoseconds since the run began.
    pub invoked_ns: u64,
    pub completed_ns: u64,
}

/// What the nemesis does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// SIGKILL, and a start once the others have gone on without it.
    Kill,
    /// SIGKILL, and a start at once.
    Restart,
    /// A minority can neither be reached nor reach the others.
    PartitionHalves,
    /// The same, with the leader alone.
    PartitionLeader,
    /// One node hears nobody, or is heard by nobody.
    PartitionOneWay,
    /// Every node reaches another majority.
    PartitionRing,
    /// One node is cut off, and its daemon killed and started meanwhile.
    PartitionKill,
    /// One node is cut off and loses power; it boots while it is cut off, and waits for a quorum in vain.
    PartitionPower,
    /// SIGSTOP, and SIGCONT later.
    Pause,
    /// Every way loses packets.
    Loss,
    /// Every node can send little, and late.
    Slow,
    /// Nothing runs and nothing that was not durable remains; then it boots.
    PowerOne,
    /// The same on most nodes at one moment: no quorum is left until they are back.
    PowerMost,
    /// The same on all nodes at one moment.
    PowerAll,
    /// One node's store is lost.
    Wipe,
    /// SIGKILL of daemon, shims and VMMs of one host; the host goes on.
    KillHost,
    /// SIGKILL of the shim of some VM.
    KillShim,
    /// SIGKILL of the VMM of some VM.
    KillVmm,
    /// SIGSTOP of the VMM of some VM, and SIGCONT later.
    PauseVmm,
    /// Two halves, and one node that reaches both.
    PartitionBridge,
    /// Nothing more can be written to one node's disk.
    DiskFull,
    /// Writes to one node's disk take long, again and again.
    DiskSlow,
    /// Writes to one node's disk wait, and wait.
    DiskHung,
    /// Bytes of one node's log are not what was written.
    Damage,
    /// The end of one node's log is gone.
    Truncate,
    /// One node leaves for ever, and another takes its place.
    Replace,
    /// Every daemon is stopped and started, one after another.
    Rolling,
    /// One node's wall clock is set, forwards or back.
    ClockJump,
    /// Clients do not reach some nodes, or do not hear them; the nodes reach each other.
    PartitionClients,
    /// SIGSTOP for longer than a lease, SIGCONT for moments, and SIGSTOP again.
    PauseAgain,
    /// SIGSTOP of daemon, shims and VMMs of one host, and SIGCONT later.
    PauseHost,
}

/// One fault, from its beginning until it was healed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub kind: FaultKind,
    pub node: String,
    pub was_leader: bool,
    pub began_ns: u64,
    /// Verified by how the process ended.
    pub took_hold: bool,
    /// When the node served again.
    pub healed_ns: Option<u64>,
    /// VMs whose own processes were ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vms: Vec<Uuid>,
}

impl Fault {
    /// One that begins; it has not taken hold yet.
    pub fn new(kind: FaultKind, node: String, was_leader: bool, began_ns: u64) -> Self {
        Self { kind, node, was_leader, began_ns, took_hold: false, healed_ns: None, vms: Vec::new() }
    }
}
