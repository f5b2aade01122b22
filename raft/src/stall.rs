//! A disk that hangs under the leader. Heartbeats need no disk, and entries are committed by the others, so
//! nobody else would notice that the leader can make nothing durable. So it is watched here: a leader whose store
//! is stuck serves no read, no grant and no decision from then on, and hands leadership to a voter that can.
//! It leads on where the others could not agree without it: then nothing would be won.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::core::Core;
use crate::handle::RaftStatus;
use crate::transfer::{SILENT_MS, successor};

/// One operation of the store that takes this long is stuck. Flash that tidies up takes a second or two.
pub(crate) const STALLED: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(100);
/// Pause before leadership is offered to somebody again.
const AGAIN: Duration = Duration::from_secs(2);

/// Watches the store while the member runs.
pub(crate) async fn run(core: Arc<Core>) {
    let mut offered: Option<Instant> = None;
    loop {
        sleep(LOOK).await;
        if core.store.busy_for() < STALLED {
            if core.yielding.swap(false, Ordering::Relaxed) {
                tracing::info!("the disk of the log works again");
            }
            offered = None;
            continue;
        }
        let status = core.status.borrow().clone();
        let leads = core.metrics().state.is_leader();
        if !leads || !others_suffice(&status, core.node().0) {
            continue;
        }
        if !core.yielding.swap(true, Ordering::Relaxed) {
            tracing::error!(
                stalled_ms = u64::try_from(core.store.busy_for().as_millis()).unwrap_or(u64::MAX),
                "the disk of the log hangs: this node stops leading; mend the disk, or switch the machine off"
            );
        }
        if offered.is_none_or(|at| at.elapsed() >= AGAIN) {
            offered = Some(Instant::now());
            offer(&core, &status).await;
        }
    }
}

async fn offer(core: &Core, status: &RaftStatus) {
    let Some(to) = successor(status, core.node()) else { return };
    // Bounded: Raft itself may be waiting for the disk. Once asked it sends no heartbeats, so that another is
    // elected even if this one does not take over.
    let asked = tokio::time::timeout(AGAIN, core.raft.trigger().transfer_leader(to.0)).await;
    tracing::info!(%to, ?asked, "leadership is offered");
}

/// Whether the other voters that are heard are a majority.
fn others_suffice(status: &RaftStatus, this: u64) -> bool {
    let heard = |node: &holm_model::NodeId| {
        node.0 != this && status.silent_ms.get(node).is_some_and(|silent_ms| *silent_ms <= SILENT_MS)
    };
    status.voters.iter().filter(|node| heard(node)).count() > status.voters.len() / 2
}

#[cfg(test)]
mod tests {
    use holm_model::NodeId;

    use super::*;

    #[test]
    fn leadership_is_let_go_only_where_the_others_are_enough() {
        // Voters, who of them is heard, and whether those suffice without node 1.
        for (voters, heard, expected) in [
            (1..=1, vec![], false),
            (1..=2, vec![2], false),
            (1..=3, vec![2], false),
            (1..=3, vec![2, 3], true),
            (1..=5, vec![2, 3], false),
            (1..=5, vec![2, 3, 5], true),
        ] {
            let status = RaftStatus {
                voters: voters.clone().map(NodeId).collect(),
                silent_ms: heard.iter().map(|node| (NodeId(*node), 100)).collect(),
                ..RaftStatus::default()
            };
            assert_eq!(others_suffice(&status, 1), expected, "{voters:?}, {heard:?} heard");
        }
    }
}
