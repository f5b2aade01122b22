//! openraft's state machine round [`holm_model::apply`]. The state lives in memory; what survives a restart
//! is the snapshot file and the log after it. After each batch the state is published, and only then are
//! proposers answered: whoever has an answer sees its effect here.
//!
//! A panic in apply, or an entry this binary does not know, ends the process: to go on would be to disagree.

use std::error::Error as _;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use holm_model::planted::{Plant, planted};
use holm_model::{ClusterId, Reply, State};
use openraft::entry::RaftEntry;
use openraft::storage::{ApplyResponder, EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, StoredMembership};
use tokio::sync::watch;

use crate::applied::Waiting;
use crate::fatal::{panic_message, stop_process};
use crate::faults;
use crate::guarded::Guarded;
use crate::handle::Published;
use crate::stamps::Stamps;
use crate::types::{Entry, LogId, Membership, TypeConfig};
use crate::{blocking, simulated, snapshot};

/// Entries applied before the state is published and their proposers are answered.
const BATCH: usize = 256;
/// Pause before a snapshot that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(10);

type SnapshotMeta = openraft::alias::SnapshotMetaOf<TypeConfig>;
type Snapshot = openraft::alias::SnapshotOf<TypeConfig, Bytes>;

/// The applied state of this node.
pub struct StateMachine {
    state: State,
    last: Option<LogId>,
    membership: Membership,
    published: watch::Sender<Arc<Published>>,
    waiting: Arc<Waiting>,
    builder: Builder,
    stamps: Arc<Stamps>,
}

/// Writes snapshots beside apply.
#[derive(Clone)]
pub struct Builder {
    file: snapshot::File,
    /// Why the last attempt failed; none when it did not.
    problem: Arc<Guarded<Option<String>>>,
    stopping: Arc<AtomicBool>,
    /// What to write.
    source: Option<Arc<(Option<LogId>, Membership, State)>>,
}

impl StateMachine {
    /// Restores the state of the snapshot in force, which must be one of `cluster` and cover what was `purged` from
    /// the log.
    ///
    /// # Errors
    /// When it is or does not, or is damaged.
    pub fn open(
        file: snapshot::File,
        cluster: ClusterId,
        purged: Option<LogId>,
        stopping: Arc<AtomicBool>,
    ) -> Result<Self, snapshot::Error> {
        let (last, membership, state) = match file.load(cluster)? {
            None => (None, StoredMembership::default(), State::default()),
            Some((header, state)) => (header.last_log_id, header.membership, state),
        };
        if purged > last {
            let index = |log_id: Option<LogId>| log_id.map_or(0, |log_id| log_id.index);
            return Err(snapshot::Error::Behind { purged: index(purged), found: index(last) });
        }
        let builder = Builder { file, problem: Arc::default(), stopping, source: None };
        let (published, _) = watch::channel(Arc::new(publication(last, &state)));
        let (waiting, stamps) = (Arc::default(), Arc::default());
        Ok(Self { state, last, membership, published, waiting, builder, stamps })
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Published>> {
        self.published.subscribe()
    }

    /// Who waits until an entry is applied.
    pub(crate) fn waiting(&self) -> Arc<Waiting> {
        Arc::clone(&self.waiting)
    }

    /// Why no snapshot can be written at present, if so.
    pub(crate) fn snapshot_problem(&self) -> Arc<Guarded<Option<String>>> {
        Arc::clone(&self.builder.problem)
    }

    /// The clock, as what is applied moves it.
    pub(crate) fn stamps(&self) -> Arc<Stamps> {
        Arc::clone(&self.stamps)
    }

    fn apply_one(&mut self, entry: &Entry) -> Option<Reply> {
        let reply = match &entry.payload {
            EntryPayload::Blank => None,
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(entry.log_id()), membership.clone());
                None
            }
            EntryPayload::Normal(data) => {
                let decoded = data
                    .decode()
                    .unwrap_or_else(|error| stop_process(&format!("log entry {}: {error}", entry.index())));
                let state = &mut self.state;
                let applied = catch_unwind(AssertUnwindSafe(|| {
                    faults::before_apply();
                    holm_model::apply(state, &decoded)
                }));
                match applied {
                    Ok(applied) => {
                        self.stamps.follow(decoded.at, &decoded.proposal.command);
                        Some(applied.reply)
                    }
                    Err(panic) => stop_process(&format!(
                        "apply panicked at log entry {} ({}): {}",
                        entry.index(),
                        decoded.proposal.command.name(),
                        panic_message(&*panic)
                    )),
                }
            }
        };
        self.last = Some(entry.log_id());
        simulated::applied(entry, &self.state);
        reply
    }

    fn publish(&self) {
        let published = publication(self.last, &self.state);
        let index = published.log_index;
        self.published.send_replace(Arc::new(published));
        self.waiting.wake(index);
    }

    fn publish_and_answer(&self, replies: &mut Vec<(ApplyResponder<TypeConfig>, Option<Reply>)>) {
        self.publish();
        for (responder, reply) in replies.drain(..) {
            responder.send(reply);
        }
    }
}

impl Drop for StateMachine {
    fn drop(&mut self) {
        self.waiting.close();
    }
}

fn publication(last: Option<LogId>, state: &State) -> Published {
    Published { log_index: last.map_or(0, |log_id| log_id.index), state: state.clone() }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Membership)> {
        Ok((self.last, self.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        let mut replies = Vec::new();
        let mut applied = 0;
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            let reply = self.apply_one(&entry);
            replies.extend(responder.map(|responder| (responder, reply)));
            applied += 1;
            if applied % BATCH == 0 {
                self.publish_and_answer(&mut replies);
            }
        }
        self.publish_and_answer(&mut replies);
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let last = if planted(Plant::AppliedNotAtomic) { one_before(self.last) } else { self.last };
        let source = Arc::new((last, self.membership.clone(), self.state.clone()));
        Builder { source: Some(source), ..self.builder.clone() }
    }

    async fn install_snapshot(&mut self, _meta: &SnapshotMeta, snapshot: Bytes) -> io::Result<()> {
        let file = self.builder.file.clone();
        let (header, state) = unblocked(move || {
            let decoded = snapshot::decode(&snapshot).map_err(io::Error::other)?;
            file.replace(decoded.0.last_log_id, &snapshot).map_err(io::Error::other)?;
            Ok(decoded)
        })
        .await?;
        self.last = header.last_log_id;
        self.membership = header.membership;
        self.state = state;
        self.publish();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let file = self.builder.file.clone();
        unblocked(move || {
            let Some(bytes) = file.read().map_err(io::Error::other)? else { return Ok(None) };
            let header = snapshot::header(&bytes).map_err(|error| io::Error::other(file.damaged(error)))?;
            Ok(Some(with_meta(header.last_log_id, header.membership, bytes)))
        })
        .await
    }
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = Bytes;

    /// Failing here would end the node, and the log is only purged after success: so a snapshot that cannot
    /// be written (disk full) is a problem that is shown, and tried again until the disk has room.
    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let source = self.source.clone().ok_or_else(|| io::Error::other("nothing to snapshot"))?;
        loop {
            let (file, source) = (self.file.clone(), Arc::clone(&source));
            let attempt = unblocked(move || {
                let (last, membership, state) = &*source;
                let bytes = snapshot::encode(*last, membership, state);
                file.replace(*last, &bytes).map_err(io::Error::other)?;
                Ok(with_meta(*last, membership.clone(), bytes))
            });
            match attempt.await {
                Ok(snapshot) => {
                    *self.problem.lock() = None;
                    return Ok(snapshot);
                }
                Err(error) if self.stopping.load(Ordering::Relaxed) => return Err(error),
                Err(error) => {
                    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                    let problem = format!("{error}{cause}");
                    tracing::warn!(problem, "cannot write a snapshot; the log grows until it can be");
                    *self.problem.lock() = Some(problem);
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}

/// What [`Plant::AppliedNotAtomic`] writes down as the last entry.
fn one_before(last: Option<LogId>) -> Option<LogId> {
    last.map(|last| LogId { index: last.index.saturating_sub(1), ..last })
}

fn with_meta(last_log_id: Option<LogId>, last_membership: Membership, snapshot: Bytes) -> Snapshot {
    Snapshot { meta: SnapshotMeta { last_log_id, last_membership }, snapshot }
}

async fn unblocked<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    blocking::run(work).await?
}
