//! Rule 4 of FENCING.md: a process that becomes leader proposes `BeginLeadership`, and serves nothing a leader
//! serves until that entry is applied by itself. On the very first leader, `InitCluster` goes before it. From then
//! on it keeps the clock of the log at its own (see [`crate::stamps`]).

use std::sync::Arc;
use std::time::Duration;

use holm_model::command::{BeginLeadership, SetClock};
use holm_model::{Actor, Command, Proposal};
use openraft::async_runtime::WatchReceiver;
use tokio::time::Instant;

use crate::core::Core;
use crate::rpc::Proposed;

/// Longest wait for one try.
const TRY: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
/// How often a leader looks at its wall clock.
const LOOK: Duration = Duration::from_secs(1);

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
        if leads {
            keep_clock(&core).await;
        }
        let changed = tokio::time::timeout(LOOK, metrics.changed()).await;
        if matches!(changed, Ok(Err(_))) {
            return core.await_the_end().await;
        }
    }
}

/// Moves the clock of the log to the wall clock of this leader, where they have come apart.
async fn keep_clock(core: &Core) {
    if core.stamps.apart_ms().is_none() {
        return;
    }
    // What was stamped before is applied before, and nothing is stamped until it is set.
    let Ok(_alone) = tokio::time::timeout(LOOK, core.stamping.write()).await else { return };
    let Some(by_ms) = core.stamps.apart_ms() else { return };
    let leadership = core.state().state.leadership;
    let Some(leadership) = leadership.filter(|leadership| leadership.incarnation == core.incarnation) else {
        return;
    };
    tracing::info!(by_ms, "the clock of the log is set: it was apart from the wall clock");
    let set = Command::SetClock(SetClock { leadership: leadership.revision, by_ms });
    let outcome = core.stamp_and_commit(proposal(core, set), Instant::now() + TRY).await;
    if !matches!(outcome, Proposed::Committed { .. }) {
        tracing::debug!(?outcome, "the clock is not set yet");
    }
}

/// One try; refused by the lease of the old leader, or by a newer leader, it is repeated while still leader.
async fn begin(core: &Core, term: u64) {
    // Everything committed by earlier leaders is applied once an entry of this term is: what follows is stamped by
    // the clock as they left it.
    if !commit(core, None).await {
        return;
    }
    if let Some(init) = core.identity.bootstrap.clone()
        && core.state().state.cluster.is_none()
        && !commit(core, Some(Command::InitCluster(init))).await
    {
        return;
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
    match core.commit(proposal(core, command), deadline).await {
        Proposed::Committed { .. } => true,
        outcome => {
            tracing::debug!(?outcome, "leadership is not begun yet");
            false
        }
    }
}

fn proposal(core: &Core, command: Command) -> Proposal {
    let actor = Actor { name: format!("node/{}", core.node()), project: String::new() };
    Proposal { key: None, seen: core.state().state.revision, actor, command }
}
