//! States of the past: what the log up to a revision makes of the snapshot in force or, while nothing of the log is gone,
//! of nothing. Only reads, so it may be asked at any time; the state in force is not touched.

use std::io;

use holm_model::State;
use holm_model::id::Revision;
use openraft::EntryPayload;
use openraft::entry::RaftEntry;
use openraft::storage::RaftLogReader;

use crate::blocking;
use crate::core::Core;
use crate::handle::Handle;
use crate::snapshot;
use crate::types::{Entry, UnknownEntry};

/// Why there is no such state.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("revision {wanted} is not applied here yet, revision {applied} is")]
    Ahead { wanted: Revision, applied: Revision },
    #[error("this node's snapshot is of revision {snapshot}, and its log of before {wanted} is gone")]
    Gone { wanted: Revision, snapshot: Revision },
    #[error("the snapshot cannot be read")]
    Snapshot(#[source] snapshot::Error),
    #[error("the log cannot be read")]
    Log(#[source] io::Error),
    #[error("the log cannot be understood")]
    Entry(#[source] UnknownEntry),
}

impl Handle {
    /// The state as it was at `revision`, as far back as this node's snapshot and log reach.
    ///
    /// # Errors
    /// See [`HistoryError`].
    pub async fn state_at(&self, revision: Revision) -> Result<State, HistoryError> {
        let core = self.core();
        let published = core.state();
        let applied = published.state.revision;
        if revision > applied {
            return Err(HistoryError::Ahead { wanted: revision, applied });
        }
        let (mut next, mut state) = beginning(core, revision).await?;
        let gone = HistoryError::Gone { wanted: revision, snapshot: state.revision };
        let mut log = core.store.clone();
        while state.revision < revision && next <= published.log_index {
            let entries = log
                .limited_get_log_entries(next, published.log_index + 1)
                .await
                .map_err(HistoryError::Log)?;
            // It may have been purged meanwhile.
            let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Err(gone) };
            if first.index() != next {
                return Err(gone);
            }
            next = last.index() + 1;
            let replayed = blocking::run(move || replay(state, &entries, revision)).await;
            state = replayed.map_err(HistoryError::Log)?.map_err(HistoryError::Entry)?;
        }
        if state.revision == revision { Ok(state) } else { Err(gone) }
    }
}

/// Where to begin on the way to `revision`: the next entry, and the state before it.
async fn beginning(core: &Core, revision: Revision) -> Result<(u64, State), HistoryError> {
    let file = core.snapshot_file.clone();
    let read = blocking::run(move || file.read()?.map(|bytes| snapshot::decode(&bytes)).transpose());
    let found = read.await.map_err(HistoryError::Log)?.map_err(HistoryError::Snapshot)?;
    match found {
        Some((header, state)) if state.revision <= revision => {
            Ok((header.last_log_id.map_or(0, |last| last.index + 1), state))
        }
        Some((_, state)) if core.store.purged().is_some() => {
            Err(HistoryError::Gone { wanted: revision, snapshot: state.revision })
        }
        _ => Ok((0, State::default())),
    }
}

/// `state` with those of `entries` that lead to `revision`.
fn replay(mut state: State, entries: &[Entry], revision: Revision) -> Result<State, UnknownEntry> {
    for entry in entries {
        if state.revision >= revision {
            break;
        }
        if let EntryPayload::Normal(data) = &entry.payload {
            holm_model::apply(&mut state, &data.decode()?);
        }
    }
    Ok(state)
}
