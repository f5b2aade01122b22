//! Hears of changes nobody here made: one connection to each running shim, whose every line and whose end
//! names the VM on the channel of the trait's `changes`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use holm_model::VmId;
use tokio::sync::mpsc;

use crate::shim::client::Connection;
use crate::shim::protocol::Op;

/// The watches that go on.
pub struct Watches {
    watched: Arc<Mutex<HashSet<VmId>>>,
    changes: mpsc::UnboundedSender<VmId>,
}

impl Watches {
    /// Names go to `changes`.
    pub fn new(changes: mpsc::UnboundedSender<VmId>) -> Self {
        Self { watched: Arc::default(), changes }
    }

    /// Watches the shim behind `socket`, unless that goes on already. One that cannot be reached is no news: whoever
    /// looks next tries again.
    pub fn begin(&self, vm: VmId, socket: &Path) {
        self.watch(vm, socket, false);
    }

    /// The same for a shim that answered a moment ago: when it cannot be reached now, that is news.
    pub fn go_on(&self, vm: VmId, socket: &Path) {
        self.watch(vm, socket, true);
    }

    fn watch(&self, vm: VmId, socket: &Path, answered: bool) {
        if !lock(&self.watched).insert(vm) {
            return;
        }
        let (watched, changes, socket) = (self.watched.clone(), self.changes.clone(), socket.to_owned());
        tokio::spawn(async move {
            let opened = Connection::open(&socket, Op::Watch).await;
            let Ok(mut connection) = opened else {
                lock(&watched).remove(&vm);
                if answered {
                    let _ = changes.send(vm);
                }
                return;
            };
            // The first line says how things are now, which whoever began the watch knows.
            let mut first = true;
            while let Ok(Some(_)) = connection.next().await {
                if !std::mem::take(&mut first) {
                    let _ = changes.send(vm);
                }
            }
            lock(&watched).remove(&vm);
            let _ = changes.send(vm);
        });
    }
}

fn lock(watched: &Mutex<HashSet<VmId>>) -> std::sync::MutexGuard<'_, HashSet<VmId>> {
    // A set is whole whatever panicked beside it.
    watched.lock().unwrap_or_else(|e| e.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A VM whose shim died between its start and the watch over it was forgotten: its worker waited for ever.
    #[tokio::test]
    async fn a_shim_that_answered_and_cannot_be_reached_is_news_and_one_that_never_did_is_none() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let socket = dir.path().join("gone");
        let [never, answered] = [1, 2].map(|n| VmId(uuid::Uuid::from_u128(n)));
        let (changes, mut news) = mpsc::unbounded_channel();
        let watches = Watches::new(changes);
        watches.begin(never, &socket);
        while lock(&watches.watched).contains(&never) {
            tokio::task::yield_now().await;
        }
        watches.go_on(answered, &socket);
        assert_eq!(
            news.recv().await.expect("news"),
            answered,
            "of the one that had answered, and of no other"
        );
        assert!(lock(&watches.watched).is_empty(), "whoever looks next may watch again");
    }
}
