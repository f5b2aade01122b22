//! Carries what the workers saw to the cluster: reports that wait at the same time share one proposal,
//! so a host with many busy VMs costs the log little.

use std::collections::BTreeMap;
use std::time::Duration;

use holm_model::command::{Command, ReportVms, VmReport};
use holm_model::{Actor, BootId, Proposal, Reply, VmId};
use holm_raft::handle::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::clock;

/// How long one proposal may take before the workers are told to try again.
pub const PROPOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most reports in one proposal.
const BATCH: usize = 256;

/// Where workers hand in their reports.
#[derive(Clone)]
pub struct Reporter {
    queue: mpsc::Sender<(VmReport, oneshot::Sender<bool>)>,
}

impl Reporter {
    /// Starts the task; it ends when the last handle is dropped.
    pub fn start(raft: Handle, boot_id: BootId) -> Self {
        let (queue, receiver) = mpsc::channel(BATCH);
        tokio::spawn(carry(raft, boot_id, receiver));
        Self { queue }
    }

    /// True once the cluster has applied the report; false when it must be tried again.
    pub async fn report(&self, report: VmReport) -> bool {
        let (done, answer) = oneshot::channel();
        self.queue.send((report, done)).await.is_ok() && answer.await.unwrap_or(false)
    }
}

async fn carry(raft: Handle, boot_id: BootId, mut queue: mpsc::Receiver<(VmReport, oneshot::Sender<bool>)>) {
    let mut batch = Vec::with_capacity(BATCH);
    while queue.recv_many(&mut batch, BATCH).await > 0 {
        let mut reports: BTreeMap<VmId, VmReport> = BTreeMap::new();
        let mut waiting = Vec::with_capacity(batch.len());
        for (report, done) in batch.drain(..) {
            reports.insert(report.vm, report);
            waiting.push(done);
        }
        let command = Command::ReportVms(ReportVms {
            node: raft.node_id(),
            boot_id,
            sequence: clock::boot_ns(),
            reports: reports.into_values().collect(),
        });
        let done = matches!(propose(&raft, command).await, Some(Reply::Done(_)));
        for waiting in waiting {
            // A worker that was cut short no longer waits.
            let _ = waiting.send(done);
        }
    }
}

/// Proposes on behalf of this node. None: unknown or unavailable; the caller sees the state later and
/// tries again, which every command of a node allows.
pub async fn propose(raft: &Handle, command: Command) -> Option<Reply> {
    let name = command.name();
    let proposal = Proposal {
        key: None,
        seen: raft.state().state.revision,
        actor: Actor { name: format!("node/{}", raft.node_id()), project: "default".to_owned() },
        command,
    };
    match raft.propose(proposal, PROPOSE_TIMEOUT).await {
        Ok(committed) => {
            if let Reply::Rejected(reason) = &committed.reply {
                tracing::debug!(command = name, %reason, "refused");
            }
            Some(committed.reply)
        }
        Err(error) => {
            tracing::debug!(command = name, %error, "no answer");
            None
        }
    }
}
