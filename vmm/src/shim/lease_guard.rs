//! Says when the lease of this run has ended. A timer on `CLOCK_BOOTTIME` ends the shim's wait at the
//! deadline, host asleep or not; the lease is read anew at every wake, so a renewal costs nothing here and
//! a new lease id, or an end before the deadline, is seen within a second. A run without a lease has
//! no timer and no wakes.

use std::io;
use std::os::fd::AsFd;

use holm_model::planted::{Plant, kernel_clock_ns, planted};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::poll::{PollSet, Token};
use crate::host;
use crate::lease::{Lease, LeaseId, LeaseView};

/// How often the lease is looked at before its deadline, for the sake of one that is ended early.
const LOOK_PERIOD_NS: u64 = 1_000_000_000;

/// The lease of a run, if it has one.
pub struct LeaseGuard {
    timer: TimerFd,
    armed: Option<Armed>,
}

struct Armed {
    id: LeaseId,
    view: LeaseView,
    /// When the timer is set for.
    wake_ns: u64,
}

impl LeaseGuard {
    /// Of a run that needs no lease yet.
    pub fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Self { timer: TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?, armed: None })
    }

    /// From here on the run depends on `lease`; refused, with nothing changed, where that does not live.
    pub fn arm(&mut self, lease: &Lease) -> Result<(), String> {
        let view = LeaseView::open(&lease.file).map_err(|e| e.to_string())?;
        // Of one file, one lease is in force: where that is another than before, the one before has ended.
        let mut armed = Armed { id: lease.id, view, wake_ns: 0 };
        if !look(&mut armed, &self.timer) {
            return Err(format!("lease {} of this node has ended", lease.id));
        }
        self.armed = Some(armed);
        Ok(())
    }

    /// The run depends on no lease any more.
    pub fn disarm(&mut self) {
        self.armed = None;
        let _ = self.timer.unset();
    }

    /// The lease it depends on.
    pub fn armed(&self) -> Option<LeaseId> {
        self.armed.as_ref().map(|armed| armed.id)
    }

    /// Registers the timer, where one runs.
    pub fn register<'a>(&'a self, set: &mut PollSet<'a>) {
        if self.armed.is_some() {
            set.add(Token::Lease, self.timer.as_fd(), true, false);
        }
    }

    /// True once: when the lease has ended. The run depends on none then, it is over.
    pub fn has_ended(&mut self) -> bool {
        let ended = self.armed.as_mut().is_some_and(|armed| !look(armed, &self.timer))
            && !planted(Plant::ShimIgnoresLease);
        if ended {
            self.disarm();
        }
        ended
    }
}

/// Whether the lease lives; sets the timer for the next look.
fn look(armed: &mut Armed, timer: &TimerFd) -> bool {
    let now = host::boottime_ns();
    let Some(deadline) = armed.view.deadline_of(armed.id).filter(|deadline| *deadline > now) else {
        return false;
    };
    let due = deadline.min(now + LOOK_PERIOD_NS);
    // A wake for another reason leaves a timer that is early enough where it is.
    if armed.wake_ns <= now || due < armed.wake_ns {
        armed.wake_ns = due;
        let due = kernel_clock_ns(due);
        let at = TimeSpec::new((due / 1_000_000_000) as i64, (due % 1_000_000_000) as i64);
        // A timer that cannot be set would miss the deadline: better to end now.
        return timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME).is_ok();
    }
    true
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::lease::LeaseFile;

    const SECOND: u64 = 1_000_000_000;

    fn file(dir: &Path) -> LeaseFile {
        LeaseFile::open_or_create(&dir.join("lease")).expect("lease file")
    }

    fn lease(file: &LeaseFile, id: u64) -> Lease {
        Lease { file: file.path().to_owned(), id: LeaseId(id) }
    }

    /// Waits as the shim does; how often it was woken before the lease ended.
    fn wakes_until_the_end(guard: &mut LeaseGuard) -> u32 {
        let mut wakes = 0;
        while !guard.has_ended() {
            let mut set = PollSet::default();
            guard.register(&mut set);
            assert_eq!(set.wait(Some(Duration::from_secs(10))), [Token::Lease], "it is woken in time");
            wakes += 1;
        }
        wakes
    }

    #[test]
    fn the_wait_ends_with_the_deadline_and_not_before() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = file(dir.path());
        let deadline = host::boottime_ns() + SECOND / 4;
        file.grant(LeaseId(1), deadline).expect("granted");
        let mut guard = LeaseGuard::new().expect("guard");
        guard.arm(&lease(&file, 1)).expect("armed");
        assert_eq!(wakes_until_the_end(&mut guard), 1);
        let late_ns = host::boottime_ns().checked_sub(deadline).expect("not before the deadline");
        assert!(late_ns < SECOND / 2, "{late_ns} ns late");
        assert_eq!(guard.armed(), None);
        assert!(!guard.has_ended(), "it is told once");
    }

    #[test]
    fn renewals_put_the_end_off_and_wake_nobody() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = file(dir.path());
        file.grant(LeaseId(1), host::boottime_ns() + SECOND / 5).expect("granted");
        let mut guard = LeaseGuard::new().expect("guard");
        guard.arm(&lease(&file, 1)).expect("armed");
        for _ in 0..1000 {
            file.grant(LeaseId(1), host::boottime_ns() + SECOND / 2).expect("renewed");
            assert!(!guard.has_ended());
        }
        let wakes = wakes_until_the_end(&mut guard);
        assert!(wakes <= 2, "one at the old deadline, one at the new: {wakes}");
    }

    #[test]
    fn an_early_end_and_another_lease_are_seen_within_the_period() {
        for end in [
            |file: &LeaseFile| file.end(),
            |file: &LeaseFile| {
                file.grant(LeaseId(2), host::boottime_ns() + 1000 * SECOND).expect("granted");
            },
        ] {
            let dir = tempfile::tempdir().expect("temporary directory");
            let file = file(dir.path());
            file.grant(LeaseId(1), host::boottime_ns() + 1000 * SECOND).expect("granted");
            let mut guard = LeaseGuard::new().expect("guard");
            guard.arm(&lease(&file, 1)).expect("armed");
            let begun = host::boottime_ns();
            end(&file);
            let mut set = PollSet::default();
            guard.register(&mut set);
            assert_eq!(set.wait(Some(Duration::from_secs(10))), [Token::Lease]);
            assert!(guard.has_ended());
            assert!(host::boottime_ns() - begun < 2 * SECOND);
        }
    }

    #[test]
    fn a_lease_that_does_not_live_arms_nothing_and_leaves_the_one_in_force() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = file(dir.path());
        let mut guard = LeaseGuard::new().expect("guard");
        assert!(guard.arm(&lease(&file, 1)).is_err(), "none was granted");
        file.grant(LeaseId(1), host::boottime_ns() + SECOND / 4).expect("granted");
        guard.arm(&lease(&file, 1)).expect("armed");
        assert!(guard.arm(&lease(&file, 2)).expect_err("another").contains("lease 2"));
        assert_eq!(guard.armed(), Some(LeaseId(1)));
        assert_eq!(wakes_until_the_end(&mut guard), 1);
    }

    #[test]
    fn without_a_lease_there_is_no_timer() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = file(dir.path());
        file.grant(LeaseId(1), host::boottime_ns() + SECOND / 10).expect("granted");
        let mut guard = LeaseGuard::new().expect("guard");
        guard.arm(&lease(&file, 1)).expect("armed");
        guard.disarm();
        let mut set = PollSet::default();
        guard.register(&mut set);
        assert_eq!(set.wait(Some(Duration::from_millis(200))), []);
        assert!(!guard.has_ended());
    }
}
