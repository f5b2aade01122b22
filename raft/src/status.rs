//! Publishes how this member stands, and watches that it still works. After a panic of Raft's core the
//! metrics would go on saying "leader": so core and state machine are asked from time to time, and a member
//! that failed ends its process.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use openraft::Instant as _;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;
use tokio::time::{Instant, sleep_until, timeout};

use crate::core::Core;
use crate::fatal::stop_process;
use crate::handle::RaftStatus;
use crate::stall::STALLED;
use crate::types::{TypeConfig, node_id};

/// What is not urgent is told this often at most.
const PACE: Duration = Duration::from_millis(20);
/// Silence grows without anything happening: it is told anew this often.
const REFRESH: Duration = Duration::from_millis(250);
/// Pause between two probes.
const PROBE: Duration = Duration::from_secs(1);
/// A probe that takes longer is worth a warning.
const SLOW: Duration = Duration::from_secs(10);

/// Keeps [`RaftStatus`] current.
pub(crate) async fn publish(core: Arc<Core>) {
    let mut metrics = core.raft.metrics();
    let mut published = core.published.clone();
    loop {
        let (told, at) = (standing(&core), Instant::now());
        core.status.send_replace(status(&core));
        // Raft has news with every entry, and each telling wakes all who listen.
        let mut due = at + REFRESH;
        while standing(&core) == told && Instant::now() < due {
            tokio::select! {
                changed = metrics.changed() => if changed.is_err() { return core.await_the_end().await },
                changed = published.changed() => if changed.is_err() { return core.await_the_end().await },
                () = sleep_until(due) => continue,
            }
            due = at + PACE;
        }
    }
}

/// What must be told at once when it changes: term, leader, whether this process leads, members, removed or not.
fn standing(core: &Core) -> impl PartialEq + use<> {
    let (term, members) = {
        let metrics = core.raft.metrics();
        let metrics = metrics.borrow_watched();
        (metrics.current_term, *metrics.membership_config.log_id())
    };
    let leading = core.is_leader() && core.has_begun(term);
    (term, core.leader(), leading, members, core.peers.told_removed())
}

fn status(core: &Core) -> RaftStatus {
    let metrics = core.metrics();
    let membership = metrics.membership_config.membership();
    // While the membership changes, who counts in both.
    let voters = membership
        .voter_ids()
        .filter(|id| membership.get_joint_config().iter().all(|config| config.contains(id)));
    let index = |log_id: Option<crate::types::LogId>| log_id.map_or(0, |log_id| log_id.index);
    let others = |id: &u64| *id != metrics.id;
    RaftStatus {
        term: metrics.current_term,
        leader: core.leader(),
        leading: core.is_leader() && core.has_begun(metrics.current_term),
        voters: voters.map(node_id).collect(),
        learners: membership.learner_ids().map(node_id).collect(),
        last_log_index: metrics.last_log_index.unwrap_or(0),
        applied_index: core.published.borrow().log_index,
        snapshot_index: index(metrics.snapshot),
        purged_index: index(metrics.purged),
        silent_ms: metrics
            .heartbeat
            .iter()
            .flatten()
            .filter(|(id, _)| others(id))
            .filter_map(|(id, heard)| Some((node_id(*id), heard.as_ref()?.elapsed())))
            .map(|(id, silent)| (id, u64::try_from(silent.as_millis()).unwrap_or(u64::MAX)))
            .collect(),
        matched: metrics
            .replication
            .iter()
            .flatten()
            .filter(|(id, _)| others(id))
            .map(|(id, matched)| (node_id(*id), index(*matched)))
            .collect(),
        removed: core.peers.told_removed(),
        snapshot_problem: core.snapshot_problem.lock().clone(),
        disk_stalled_ms: stalled_ms(core.store.busy_for()),
    }
}

fn stalled_ms(busy: Duration) -> u64 {
    if busy < STALLED { 0 } else { u64::try_from(busy.as_millis()).unwrap_or(u64::MAX) }
}

/// Ends the process when this member has failed.
pub(crate) async fn watch(core: Arc<Core>) {
    let mut metrics = core.raft.metrics();
    loop {
        let running = metrics.borrow_watched().running_state.clone();
        if let Err(fatal) = running {
            return fail(&core, &fatal);
        }
        let probed = tokio::select! {
            _ = metrics.changed().then(|_| tokio::time::sleep(PROBE)) => timeout(SLOW, probe(&core)).await,
            () = tokio::time::sleep(PROBE) => timeout(SLOW, probe(&core)).await,
        };
        match probed {
            Ok(Ok(())) => {}
            Ok(Err(fatal)) => return fail(&core, &fatal),
            Err(_) => tracing::warn!("Raft has not answered for {} s; is the disk slow?", SLOW.as_secs()),
        }
    }
}

/// Both workers answer.
async fn probe(core: &Core) -> Result<(), Fatal<TypeConfig>> {
    core.raft.with_raft_state(|_| ()).await?;
    core.raft.with_state_machine(|_| async {}.boxed()).await
}

fn fail(core: &Core, fatal: &Fatal<TypeConfig>) {
    if !core.is_stopping() {
        stop_process(&format!("Raft has failed: {fatal}"));
    }
}
