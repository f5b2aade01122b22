//! Who waits until an entry is applied here, by its index. A publication wakes those it answers and nobody else: on a
//! busy node hundreds wait at a time, and each would be woken for every batch.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use crate::guarded::Guarded;

/// An index, and a number that tells apart those who wait for the same.
type Ticket = (u64, u64);

/// Those who wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Guarded<Tickets>);

#[derive(Debug, Default)]
struct Tickets {
    given: u64,
    waiting: BTreeMap<Ticket, oneshot::Sender<()>>,
    closed: bool,
}

/// A place among those who wait; given up when dropped.
pub(crate) struct Place<'a> {
    all: &'a Waiting,
    ticket: Ticket,
    woken: oneshot::Receiver<()>,
}

impl Waiting {
    /// Takes a place. What is published after this call wakes it; what was before must be looked at.
    pub(crate) fn enter(&self, index: u64) -> Place<'_> {
        let (wake, woken) = oneshot::channel();
        let mut tickets = self.0.lock();
        tickets.given += 1;
        let ticket = (index, tickets.given);
        if !tickets.closed {
            tickets.waiting.insert(ticket, wake);
        }
        Place { all: self, ticket, woken }
    }

    /// Everything up to `index` is applied and published.
    pub(crate) fn wake(&self, index: u64) {
        let mut tickets = self.0.lock();
        let later = tickets.waiting.split_off(&(index + 1, 0));
        let due = std::mem::replace(&mut tickets.waiting, later);
        drop(tickets);
        for wake in due.into_values() {
            // Whoever waited may have gone.
            let _ = wake.send(());
        }
    }

    /// Nothing is applied any more.
    pub(crate) fn close(&self) {
        let mut tickets = self.0.lock();
        tickets.closed = true;
        tickets.waiting.clear();
    }
}

impl Place<'_> {
    /// True once the entry is applied, false when it never will be.
    pub(crate) async fn called(&mut self) -> bool {
        (&mut self.woken).await.is_ok()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.all.0.lock().waiting.remove(&self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_publication_wakes_those_it_answers_and_nobody_else() {
        let waiting = Waiting::default();
        let mut places = [5, 7, 7, 8].map(|index| waiting.enter(index));
        waiting.wake(7);
        let called = places.each_mut().map(|place| place.called().now_or_never());
        assert_eq!(called, [Some(true), Some(true), Some(true), None]);
    }

    #[test]
    fn who_gives_up_leaves_nothing_behind() {
        let waiting = Waiting::default();
        drop(waiting.enter(5));
        assert!(waiting.0.lock().waiting.is_empty());
    }

    #[test]
    fn when_apply_ends_nobody_waits_on() {
        let waiting = Waiting::default();
        let mut before = waiting.enter(5);
        waiting.close();
        assert_eq!(before.called().now_or_never(), Some(false));
        assert_eq!(waiting.enter(5).called().now_or_never(), Some(false));
    }
}
