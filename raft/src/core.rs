//! What the parts of one running member share, and the questions they all ask of it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holm_model::planted::{Plant, planted};
use holm_model::{Incarnation, NodeId};
use openraft::async_runtime::WatchReceiver;
use tokio::sync::{RwLock, watch};
use tokio::time::Instant;

use crate::applied::Waiting;
use crate::guarded::Guarded;
use crate::handle::{Published, RaftStatus};
use crate::identity::Identity;
use crate::leases::Leases;
use crate::peers::Peers;
use crate::rounds::Rounds;
use crate::server::Incoming;
use crate::snapshot;
use crate::stamps::Stamps;
use crate::store::LogStore;
use crate::types::{Metrics, Raft, node_id};

/// One running member.
pub(crate) struct Core {
    pub(crate) identity: Identity,
    pub(crate) incarnation: Incarnation,
    pub(crate) raft: Raft,
    pub(crate) store: LogStore,
    pub(crate) peers: Arc<Peers>,
    pub(crate) published: watch::Receiver<Arc<Published>>,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) status: watch::Sender<RaftStatus>,
    pub(crate) stamps: Arc<Stamps>,
    /// Shared by whoever stamps an entry until it is applied; held alone while the clock is set. Otherwise entries
    /// with stamps of the old clock would come behind the `SetClock`, and set the clock back.
    pub(crate) stamping: RwLock<()>,
    pub(crate) snapshot_file: snapshot::File,
    pub(crate) snapshot_problem: Arc<Guarded<Option<String>>>,
    pub(crate) rounds: Rounds,
    pub(crate) leases: Leases,
    pub(crate) incoming: Guarded<Option<Incoming>>,
    pub(crate) stopping: Arc<AtomicBool>,
    /// It leads as far as Raft is concerned, but its disk hangs: it is nobody's leader ([`crate::stall`]).
    pub(crate) yielding: AtomicBool,
}

impl Core {
    pub(crate) fn node(&self) -> NodeId {
        self.identity.node
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.raft.metrics().borrow_watched().clone()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// There is no point in trying again here.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_stopping() || self.peers.told_removed()
    }

    /// For a task whose source has dried up because Raft ended: [`crate::status::watch`] finds out why and ends the
    /// process, so this one has only to wait.
    pub(crate) async fn await_the_end(&self) {
        std::future::pending().await
    }

    /// The applied state, as of now.
    pub(crate) fn state(&self) -> Arc<Published> {
        Arc::clone(&self.published.borrow())
    }

    /// The leader this node knows of, itself included.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        let leader = self.raft.metrics().borrow_watched().current_leader.map(node_id);
        leader.filter(|leader| *leader != self.node() || !self.is_yielding())
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.raft.metrics().borrow_watched().state.is_leader() && !self.is_yielding()
    }

    pub(crate) fn is_yielding(&self) -> bool {
        self.yielding.load(Ordering::Relaxed)
    }

    /// This process leads, and has applied its own `BeginLeadership` of this term (FENCING.md, rule 4).
    pub(crate) fn is_leading(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let begun = self.has_begun(metrics.current_term) || planted(Plant::NoBeginLeadership);
        metrics.state.is_leader() && begun && !self.is_yielding()
    }

    pub(crate) fn has_begun(&self, term: u64) -> bool {
        self.published.borrow().state.leadership.as_ref().is_some_and(|leadership| {
            leadership.node == self.node()
                && leadership.incarnation == self.incarnation
                && leadership.term == term
        })
    }

    /// `work` for `leader`, given up soon after another one leads: the old one may be cut off, and its connection
    /// would take its time to notice.
    pub(crate) async fn while_leader<T>(&self, leader: NodeId, work: impl Future<Output = T>) -> Option<T> {
        const GRACE: Duration = Duration::from_millis(200);
        let mut status = self.status.subscribe();
        let another = |now: Option<NodeId>| now.is_some_and(|now| now != leader);
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                _ = status.wait_for(|status| another(status.leader)) => {}
            }
            match tokio::time::timeout(GRACE, &mut work).await {
                Ok(done) => return Some(done),
                Err(_) if another(self.leader()) => return None,
                // The status was a moment behind.
                Err(_) => {}
            }
        }
    }

    /// Waits until this process leads with its `BeginLeadership` applied. False when it is not the leader, or
    /// the time is up.
    pub(crate) async fn wait_leading(&self, deadline: Instant) -> bool {
        let mut published = self.published.clone();
        loop {
            published.mark_unchanged();
            if self.is_leading() {
                return true;
            }
            if !self.is_leader() || Instant::now() >= deadline {
                return false;
            }
            // The period covers leadership lost meanwhile.
            let pause = Duration::from_millis(20);
            if let Ok(Err(_)) = tokio::time::timeout(pause, published.changed()).await {
                return false;
            }
        }
    }

    /// Waits until the entry at `index` is applied here.
    pub(crate) async fn wait_applied(&self, index: u64, deadline: Instant) -> Option<Arc<Published>> {
        let mut place = self.waiting.enter(index);
        let mut published = self.state();
        if published.log_index < index {
            let called = tokio::time::timeout_at(deadline, place.called()).await;
            published = self.state();
            if called != Ok(true) {
                return None;
            }
        }
        Some(published)
    }
}

/// When a wait of `timeout` is over. A time-out may come from outside and be any number; nothing waits for longer
/// than a day.
pub(crate) fn deadline_after(timeout: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_secs(86_400);
    Instant::now() + timeout.min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn any_number_is_a_time_out() {
        assert!(deadline_after(Duration::MAX) > Instant::now() + Duration::from_secs(3_600));
        assert!(deadline_after(Duration::from_millis(u64::MAX)) > Instant::now());
        assert!(deadline_after(Duration::ZERO) <= Instant::now());
    }
}
