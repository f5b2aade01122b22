//! Counts the resets of a guest, to tell a reboot now and then from a guest that resets in a loop.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// More resets than this within [`WINDOW`] are a loop.
pub const LIMIT: usize = 10;
/// See [`LIMIT`].
pub const WINDOW: Duration = Duration::from_secs(60);

/// The resets of one run.
#[derive(Default)]
pub struct ResetCounter {
    total: u64,
    recent: VecDeque<Instant>,
}

impl ResetCounter {
    /// Counts one; a text when it makes a loop.
    pub fn count(&mut self, now: Instant) -> Option<String> {
        self.total += 1;
        self.recent.push_back(now);
        while self.recent.front().is_some_and(|first| now.saturating_duration_since(*first) > WINDOW) {
            self.recent.pop_front();
        }
        let seconds = now.saturating_duration_since(*self.recent.front()?).as_secs_f64();
        (self.recent.len() > LIMIT)
            .then(|| format!("guest resets in a loop ({} in {seconds:.1} s)", self.recent.len()))
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eleventh_reset_within_a_minute_is_a_loop() {
        let start = Instant::now();
        let mut counter = ResetCounter::default();
        for i in 0..10 {
            assert_eq!(counter.count(start + Duration::from_millis(i * 200)), None);
        }
        assert_eq!(
            counter.count(start + Duration::from_secs(2)).as_deref(),
            Some("guest resets in a loop (11 in 2.0 s)")
        );
    }

    #[test]
    fn resets_far_apart_are_no_loop() {
        let start = Instant::now();
        let mut counter = ResetCounter::default();
        for i in 0..100 {
            assert_eq!(counter.count(start + Duration::from_secs(i * 7)), None);
        }
        assert_eq!(counter.total(), 100);
    }
}
