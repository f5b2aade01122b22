//! Where a simulation takes the place of the host: its network, its disk, its threads and the end of its process. The
//! clock and chance it replaces below us, at the C library. Compiled in with the feature `simulation` only, which no
//! product crate enables, and off even then: until a [`Host`](host::Host) is entered on a thread, all is real.

#[cfg(feature = "simulation")]
pub(crate) mod files;
#[cfg(feature = "simulation")]
pub mod host;
#[cfg(feature = "simulation")]
pub(crate) mod net;
#[cfg(feature = "simulation")]
pub(crate) mod trees;

#[cfg(feature = "simulation")]
mod on {
    use std::cell::RefCell;
    use std::sync::Arc;

    use holm_model::State;
    use openraft::entry::RaftEntry;

    use super::host::{Event, Host, Position, Stopped};
    use crate::store::encode;
    use crate::types::{Entry, LogId};

    thread_local! {
        static HOST: RefCell<Option<Arc<dyn Host>>> = const { RefCell::new(None) };
    }

    /// From now on this thread runs on `host`; without one, on the real one again.
    pub fn enter(host: Option<Arc<dyn Host>>) {
        HOST.with(|current| *current.borrow_mut() = host);
    }

    pub(crate) fn host() -> Option<Arc<dyn Host>> {
        HOST.with(|current| current.borrow().clone())
    }

    /// Whether this thread is simulated.
    pub(crate) fn is_on() -> bool {
        HOST.with(|current| current.borrow().is_some())
    }

    /// Ends what runs, as the end of the process would.
    pub(crate) fn stop(reason: &str) {
        if let Some(host) = host() {
            host.stopped(reason);
            std::panic::resume_unwind(Box::new(Stopped));
        }
    }

    /// The log of this node was written.
    pub(crate) fn appended(entries: &[Entry]) {
        let Some(host) = host() else { return };
        for entry in entries {
            host.event(Event::Appended { at: position(entry.log_id()), entry: &encode(entry) });
        }
    }

    /// The log of this node was cut.
    pub(crate) fn truncated(last: Option<LogId>) {
        if let Some(host) = host() {
            host.event(Event::Truncated { after: last.map(position) });
        }
    }

    /// An entry was applied, with this effect.
    pub(crate) fn applied(entry: &Entry, state: &State) {
        if let Some(host) = host() {
            host.event(Event::Applied { at: position(entry.log_id()), entry: &encode(entry), state });
        }
    }

    fn position(log_id: LogId) -> Position {
        let leader = log_id.leader_id;
        Position { term: leader.term, leader: leader.node_id, index: log_id.index }
    }
}

#[cfg(feature = "simulation")]
pub use on::enter;
#[cfg(feature = "simulation")]
pub(crate) use on::{appended, applied, host, is_on, stop, truncated};

#[cfg(not(feature = "simulation"))]
mod off {
    use holm_model::State;

    use crate::types::{Entry, LogId};

    pub(crate) const fn is_on() -> bool {
        false
    }

    pub(crate) const fn stop(_: &str) {}

    pub(crate) const fn appended(_: &[Entry]) {}

    pub(crate) const fn truncated(_: Option<LogId>) {}

    pub(crate) const fn applied(_: &Entry, _: &State) {}
}

#[cfg(not(feature = "simulation"))]
pub(crate) use off::{appended, applied, is_on, stop, truncated};
