//! The clocks of the shell. Pure crates never see them; they get what is read here as data.

use std::time::{SystemTime, UNIX_EPOCH};

use holm_model::Timestamp;
use holm_model::planted::{host_clock_ns, wall_offset_ms};
use nix::time::{ClockId, clock_gettime};

/// Wall clock, for people.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    Timestamp(ms.saturating_add_signed(wall_offset_ms()))
}

/// Nanoseconds since the host booted, suspend included: rises across restarts of the daemon, which
/// makes it the sequence of a node's reports within one boot.
pub fn boot_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has CLOCK_BOOTTIME since 2.6.39");
    let ns = u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec()).unwrap_or(0);
    host_clock_ns(ns)
}
