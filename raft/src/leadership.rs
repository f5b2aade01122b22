//! Rule 4 of FENCING.md: a process that becomes leader proposes `BeginLeadership`, and serves nothing a leader
//! serves until that entry is applied by itself. On the very first leader, `InitCluster` goes before it.

use std::sync::Arc;
use std::time::Duration;

use holm_model::command::BeginLeadership;
use holm_model::{Actor, Command, Proposal};
use openraft::async_runtime::WatchReceiver;
use tokio::time::Instant;

use crate::core::Core;
use crate::rpc::Proposed;

/// Longest wait for one try.
const TRY: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// Watches for the moment this process becomes leader, each time.
pub(crate) async fn run(core: Arc<Core>) {
    let mut metrics = core.raft.metrics();
    loop {
        let (leads, term) = {
            let metrics = metrics.borrow_watched();
            (metrics.state.is_leader(), metrics.current_term)
        };
        if leads && !core.has_begun(term) {
            begin(&core, term).await;
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        if metrics.changed().await.is_err() {
            return core.await_the_end().await;
        }
    }
}

/// One try; refused by the lease of the old leader, or by a newer leader, it is repeated while still leader.
async fn begin(core: &Core, term: u64) {
    let uninitialised = || core.state().state.cluster.is_none();
    if let Some(init) = core.identity.bootstrap.clone().filter(|_| uninitialised()) {
        // Everything committed by earlier leaders is applied once an entry of this term is.
        if !commit(core, None).await {
            return;
        }
        if uninitialised() && !commit(core, Some(Command::InitCluster(init))).await {
            return;
        }
    }
    let begin = BeginLeadership { node: core.node(), term, incarnation: core.incarnation };
    if commit(core, Some(Command::BeginLeadership(begin))).await {
        tracing::info!(node = %core.node(), term, "leads the cluster");
    }
}

/// Commits and applies `command`, or an empty entry.
async fn commit(core: &Core, command: Option<Command>) -> bool {
    let deadline = Instant::now() + TRY;
    let Some(command) = command else {
        return matches!(tokio::time::timeout_at(deadline, core.raft.write_blank()).await, Ok(Ok(_)));
    };
    let actor = Actor { name: format!("node/{}", core.node()), project: String::new() };
    let seen = core.state().state.revision;
    let proposal = Proposal { key: None, seen, actor, command };
    match core.commit(proposal, deadline).await {
        Proposed::Committed { .. } => true,
        outcome => {
            tracing::debug!(?outcome, "leadership is not begun yet");
            false
        }
    }
}
