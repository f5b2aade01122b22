//! Quorum rounds (FENCING.md, rule 5). One task on the leader runs read barriers, one after another; a round
//! answers only the requests that were there before it began. So however many read, a round costs the same.

use std::sync::Arc;
use std::time::Duration;

use holm_model::planted::{Plant, planted};
use openraft::errors::{LinearizableReadError, RaftError};
use openraft::raft::linearizable_read::LinearizerOption;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::core::Core;

/// Longest round, begin of leadership included.
const ROUND: Duration = Duration::from_secs(3);
/// Requests that may wait for the next round.
const QUEUE: usize = 65_536;

/// Why a round answers nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("this node is not the leader")]
    NotLeader,
    #[error("no quorum: {0}")]
    NoQuorum(String),
}

type Request = oneshot::Sender<Result<u64, Failure>>;

/// Where requests wait.
#[derive(Clone)]
pub(crate) struct Rounds(mpsc::Sender<Request>);

/// What the task takes them from.
pub(crate) struct Queue(mpsc::Receiver<Request>);

pub(crate) fn new() -> (Rounds, Queue) {
    let (requests, queue) = mpsc::channel(QUEUE);
    (Rounds(requests), Queue(queue))
}

impl Rounds {
    /// A log index; a read that has applied it sees everything acknowledged before this call.
    pub(crate) async fn read_index(&self) -> Result<u64, Failure> {
        let (request, answer) = oneshot::channel();
        let gone = |_| Failure::NoQuorum("the node is stopping".to_owned());
        self.0.send(request).await.map_err(|_| Failure::NoQuorum("the node is stopping".to_owned()))?;
        answer.await.map_err(gone)?
    }
}

/// Runs rounds while there are requests.
pub(crate) async fn run(core: Arc<Core>, mut queue: Queue) {
    let mut group: Vec<Request> = Vec::new();
    while queue.0.recv_many(&mut group, QUEUE).await > 0 {
        let result = tokio::time::timeout(ROUND, round(&core)).await;
        let result = result.unwrap_or_else(|_| Err(Failure::NoQuorum("the round took too long".to_owned())));
        for request in group.drain(..) {
            // Whoever asked may have given up.
            let _ = request.send(result.clone());
        }
    }
}

async fn round(core: &Core) -> Result<u64, Failure> {
    if !core.wait_leading(Instant::now() + ROUND).await {
        return Err(Failure::NotLeader);
    }
    if planted(Plant::ReadWithoutQuorum) {
        return Ok(core.state().log_index);
    }
    // Age zero: the quorum must answer something sent after this moment.
    let option = LinearizerOption::new(Some(Duration::ZERO), true).with_wait_timeout(ROUND);
    match core.raft.get_read_linearizer(option).await {
        Ok(linearizer) if core.is_leading() => Ok(linearizer.read_log_id().index()),
        Ok(_) | Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(_))) => {
            Err(Failure::NotLeader)
        }
        Err(error) => Err(Failure::NoQuorum(error.to_string())),
    }
}
