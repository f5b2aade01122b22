//! Whether the wall clock goes evenly, held against the clock that counts from boot (and goes on in suspend). Pure.
//! The wall clock is for people only; no lease, time-out or order of events in the cluster depends on it.

use super::facts::Clock;

/// The wall clock may be set by this much between two looks: slewing is slower, leap seconds are less.
const JUMP_MS: i64 = 5_000;
/// A jump is news for this long.
const NEWS_NS: u64 = 600_000_000_000;
/// Beginning of the year in which this program was written: no clock that is right tells an earlier time.
const WRITTEN_MS: u64 = 1_767_225_600_000;

/// Remembers how the two clocks stood.
#[derive(Debug, Default)]
pub struct ClockWatch {
    /// Wall clock less time since boot, in milliseconds.
    offset_ms: Option<i64>,
    jump: Option<Jump>,
}

#[derive(Clone, Copy, Debug)]
struct Jump {
    by_ms: i64,
    at_ns: u64,
}

impl ClockWatch {
    /// Both clocks, read at the same time.
    pub fn look(&mut self, boot_ns: u64, wall_ms: u64) -> Clock {
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let offset_ms = signed(wall_ms).saturating_sub(signed(boot_ns / 1_000_000));
        let by_ms = self.offset_ms.map_or(0, |before| offset_ms.saturating_sub(before));
        if by_ms.unsigned_abs() > JUMP_MS.unsigned_abs() {
            self.jump = Some(Jump { by_ms, at_ns: boot_ns });
        }
        self.offset_ms = Some(offset_ms);
        self.jump = self.jump.filter(|jump| boot_ns.saturating_sub(jump.at_ns) < NEWS_NS);
        Clock { jump_ms: self.jump.map(|jump| jump.by_ms), is_before_build: wall_ms < WRITTEN_MS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_told_from_one_that_is_slow_to_be_looked_at() {
        const NOON: u64 = 1_800_000_000_000;
        let mut watch = ClockWatch::default();
        // Seconds since boot, milliseconds of the wall clock since noon, the jump that is told.
        for (boot_s, wall_ms, expected) in [
            (100, 0, None),
            (110, 10_000, None),
            (4_000, 3_900_000, None),
            (4_010, 3_915_000, None),
            (4_020, 3_930_001, Some(5_001)),
            (4_030, 3_940_001, Some(5_001)),
            (4_040, 350_001, Some(-3_600_000)),
            (4_639, 949_001, Some(-3_600_000)),
            (4_640, 950_001, None),
        ] {
            let clock = watch.look(boot_s * 1_000_000_000, NOON + wall_ms);
            assert_eq!(clock.jump_ms, expected, "{boot_s} s after boot");
        }
    }

    #[test]
    fn nineteen_seventy_is_no_time_to_be_running() {
        let mut watch = ClockWatch::default();
        assert!(watch.look(1, 0).is_before_build);
        assert!(watch.look(1, WRITTEN_MS - 1).is_before_build);
        assert!(!watch.look(1, WRITTEN_MS).is_before_build);
    }
}
