//! Quantities in words: ages, sizes, moments. Tables show them so; JSON and YAML show what the API said.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holm_api::Timestamp;

/// The present moment, in milliseconds since 1970; a value, so that output can be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now(pub i64);

impl Now {
    /// Reads this machine's clock.
    pub fn read() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// How long ago `at` was: `0s` when it lies ahead (clocks differ), `?` when it is no moment.
    pub fn age(self, at: &Timestamp) -> String {
        match unix_ms(at) {
            Some(at) => span(Duration::from_millis(u64::try_from(self.0 - at).unwrap_or(0))),
            None => "?".into(),
        }
    }
}

/// A span in its two leading units at most: `12s`, `5m`, `3h20m`, `4d6h`.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let with_rest = |big: u64, unit: &str, rest: u64, rest_unit: &str| match rest {
        0 => format!("{big}{unit}"),
        rest => format!("{big}{unit}{rest}{rest_unit}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{minutes}m"),
        7200..172_800 => with_rest(hours, "h", minutes % 60, "m"),
        _ if days < 10 => with_rest(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

/// A span somebody has waited through: `85 ms`, `1.6 s`, then as [`span`].
pub fn short(waited: Duration) -> String {
    match waited.as_millis() {
        ms @ 0..1000 => format!("{ms} ms"),
        1000..10_000 => format!("{:.1} s", waited.as_secs_f64()),
        _ => span(waited),
    }
}

/// Bytes in binary units: `512 B`, `4.2 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    #[allow(clippy::cast_precision_loss)]
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `1 node`, `3 nodes`.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Milliseconds since 1970 of an RFC 3339 moment in UTC.
pub fn unix_ms(at: &Timestamp) -> Option<i64> {
    let text = at.0.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut clock = clock.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let fraction_ms: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    if !(1..=12).contains(&month) {
        return None;
    }
    let seconds = (days_since_1970(year, month, day) * 24 + hour) * 3600 + minute * 60 + second;
    Some(seconds * 1000 + fraction_ms)
}

/// Days from 1970-01-01 to a civil date (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms",
/// `days_from_civil`).
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read() {
        let cases = [
            ("1970-01-01T00:00:00.000Z", Some(0)),
            ("2026-11-30T12:35:44.250Z", Some(1_796_042_144_250)),
            ("2024-02-29T23:59:59.9Z", Some(1_709_251_199_900)),
            ("2024-02-29T23:59:59Z", Some(1_709_251_199_000)),
            ("yesterday", None),
            ("2024-13-01T00:00:00Z", None),
        ];
        for (text, expected) in cases {
            assert_eq!(unix_ms(&Timestamp(text.into())), expected, "{text}");
        }
    }

    #[test]
    fn ages_are_short() {
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7199, "119m"),
            (7200, "2h"),
            (12_000, "3h20m"),
            (172_800, "2d"),
            (367_200, "4d6h"),
            (1_000_000, "11d"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(span(Duration::from_secs(seconds)), expected);
        }
        let ahead = Timestamp("1970-01-01T00:01:00.000Z".into());
        assert_eq!(Now(0).age(&ahead), "0s");
    }

    #[test]
    fn short_waits_are_told_exactly() {
        let cases = [(85, "85 ms"), (1600, "1.6 s"), (12_345, "12s")];
        for (ms, expected) in cases {
            assert_eq!(short(Duration::from_millis(ms)), expected);
        }
    }

    #[test]
    fn sizes_are_binary() {
        let cases =
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (4_404_019, "4.2 MiB"), (1 << 30, "1.0 GiB")];
        for (size, expected) in cases {
            assert_eq!(bytes(size), expected);
        }
        assert_eq!(bytes((1 << 20) - 1), "1.0 MiB");
    }
}
