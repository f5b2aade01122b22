//! The clock that stamps entries and judges time-outs: it goes on from the last stamp this replica applied, by the time
//! that has passed on this host since, and never jumps. So who leads next continues the clock of who led before, and
//! a wall clock that is set moves no deadline. Where it has come apart from the leader's wall clock, the leader says
//! so with a `SetClock`, which moves it on every replica together with all that waits.

use holm_model::planted::{Plant, host_clock_ns, planted, wall_offset_ms};
use holm_model::{Command, Timestamp};
use nix::time::{ClockId, clock_gettime};

use crate::guarded::Guarded;

/// So far wall clock and stamps may be apart.
const APART_MS: u64 = 2_000;
/// An entry may be applied this long after it was stamped without moving the clock back: its commit took that long.
const LATE_MS: u64 = 30_000;

/// A stamp, and when this host had it, in milliseconds since its boot.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    stamp: Timestamp,
    boot_ms: u64,
}

impl Anchor {
    fn at(self, boot_ms: u64) -> Timestamp {
        Timestamp(self.stamp.0.saturating_add(boot_ms.saturating_sub(self.boot_ms)))
    }
}

/// The clock of one member.
#[derive(Debug, Default)]
pub(crate) struct Stamps(Guarded<Option<Anchor>>);

impl Stamps {
    /// The time as entries have it.
    pub(crate) fn now(&self) -> Timestamp {
        if planted(Plant::StampsByWallClock) {
            return wall();
        }
        self.now_at(boot_ms(), wall())
    }

    fn now_at(&self, boot_ms: u64, wall: Timestamp) -> Timestamp {
        self.0.lock().map_or(wall, |anchor| anchor.at(boot_ms))
    }

    /// Follows an entry that is applied.
    pub(crate) fn follow(&self, at: Timestamp, command: &Command) {
        self.follow_at(at, command, boot_ms());
    }

    fn follow_at(&self, at: Timestamp, command: &Command, boot_ms: u64) {
        let mut anchor = self.0.lock();
        let continued = anchor.map(|anchor| anchor.at(boot_ms));
        let stamp = match continued {
            Some(now) if at <= now && now.since_ms(at) <= LATE_MS => now,
            _ => at,
        };
        let stamp = match command {
            Command::SetClock(set) => Timestamp(stamp.0.saturating_add_signed(set.by_ms)),
            _ => stamp,
        };
        *anchor = Some(Anchor { stamp, boot_ms });
    }

    /// By how much the wall clock is ahead, if that is too far.
    pub(crate) fn apart_ms(&self) -> Option<i64> {
        self.apart_at(boot_ms(), wall())
    }

    fn apart_at(&self, boot_ms: u64, wall: Timestamp) -> Option<i64> {
        let now = (*self.0.lock())?.at(boot_ms);
        let signed = |at: Timestamp| i64::try_from(at.0).unwrap_or(i64::MAX);
        let by_ms = signed(wall).saturating_sub(signed(now));
        (by_ms.unsigned_abs() > APART_MS).then_some(by_ms)
    }
}

/// The wall clock, for people to read.
pub(crate) fn wall() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let ms = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
    Timestamp(ms.saturating_add_signed(wall_offset_ms()))
}

/// Milliseconds since the host booted, suspend included.
pub(crate) fn boot_ms() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has CLOCK_BOOTTIME since 2.6.39");
    let ns = u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec()).unwrap_or(0);
    host_clock_ns(ns) / 1_000_000
}

#[cfg(test)]
mod tests {
    use holm_model::Revision;
    use holm_model::command::{EndFreeze, SetClock};

    use super::*;

    const NOON: u64 = 1_800_000_000_000;
    const HOUR: u64 = 3_600_000;

    fn any() -> Command {
        Command::EndFreeze(EndFreeze { leadership: Revision(1), freeze: Revision(1) })
    }

    fn set(by_ms: i64) -> Command {
        Command::SetClock(SetClock { leadership: Revision(1), by_ms })
    }

    #[test]
    fn the_clock_goes_on_from_what_was_applied_whatever_the_wall_clock_says() {
        let stamps = Stamps::default();
        assert_eq!(stamps.now_at(5_000, Timestamp(NOON)), Timestamp(NOON), "nothing to go on from");
        assert_eq!(stamps.apart_at(5_000, Timestamp(0)), None);
        stamps.follow_at(Timestamp(NOON), &any(), 10_000);
        // This host's wall clock is an hour ahead of the leader's; then this host leads.
        let wall = |boot_ms| Timestamp(NOON + HOUR + boot_ms - 10_000);
        assert_eq!(stamps.now_at(11_000, wall(11_000)), Timestamp(NOON + 1_000));
        assert_eq!(stamps.apart_at(11_000, wall(11_000)), Some(3_600_000));
        let at = stamps.now_at(11_000, wall(11_000));
        stamps.follow_at(at, &set(3_600_000), 11_005);
        assert_eq!(stamps.now_at(11_005, wall(11_005)), Timestamp(NOON + HOUR + 1_005));
        assert_eq!(stamps.apart_at(11_005, wall(11_005)), None);
        // The wall clock goes back by a day.
        let wall = Timestamp(NOON + HOUR + 2_000 - 24 * HOUR);
        assert_eq!(stamps.apart_at(12_000, wall), Some(-86_400_000));
        stamps.follow_at(stamps.now_at(12_000, wall), &set(-86_400_000), 12_000);
        assert_eq!(stamps.apart_at(12_000, wall), None);
    }

    #[test]
    fn entries_that_took_their_time_to_commit_hold_nothing_up_and_old_ones_are_caught_up_with() {
        let stamps = Stamps::default();
        stamps.follow_at(Timestamp(NOON), &any(), 0);
        stamps.follow_at(Timestamp(NOON), &any(), 20_000);
        assert_eq!(stamps.now_at(20_000, Timestamp(0)), Timestamp(NOON + 20_000));
        // A replica that catches up applies what is long past, and ends at the last stamp there is.
        stamps.follow_at(Timestamp(NOON - 5 * HOUR), &any(), 20_001);
        stamps.follow_at(Timestamp(NOON + HOUR), &any(), 20_002);
        assert_eq!(stamps.now_at(20_002, Timestamp(0)), Timestamp(NOON + HOUR));
    }
}
