//! Values and options that several commands share: durations, and whether to wait.

use std::time::Duration;

use clap::Args;

/// A duration: a number with `ms`, `s`, `m` or `h`; without a unit, seconds.
///
/// # Errors
/// A sentence that names the accepted forms.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; write for example `30s`, `15m` or `1h`");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit_ms = match &text[digits..] {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(wrong)
}

/// Whether to wait for the outcome. Waiting is the default, on a terminal and in a pipe alike.
#[derive(Clone, Copy, Debug, Args)]
pub struct Wait {
    /// Wait until it has happened (the default).
    #[arg(long = "wait", overrides_with = "no_wait")]
    _wait: bool,
    /// Return as soon as the cluster has accepted the request.
    #[arg(long)]
    no_wait: bool,
}

impl Wait {
    /// `limit` if the caller wants to wait.
    pub fn up_to(self, limit: Duration) -> Option<Duration> {
        (!self.no_wait).then_some(limit)
    }
}

/// Whether to wait, and how long.
#[derive(Clone, Copy, Debug, Args)]
pub struct BoundedWait {
    #[command(flatten)]
    wait: Wait,
    /// This command's time: wait this long at most; the cluster goes on regardless.
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration)]
    timeout: Duration,
}

impl BoundedWait {
    /// How long to wait; none when the caller does not want to.
    pub fn limit(self) -> Option<Duration> {
        self.wait.up_to(self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_carry_a_unit_or_are_seconds() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("15m"), Ok(Duration::from_secs(900)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
    }

    #[test]
    fn a_wrong_duration_is_answered_with_the_accepted_forms() {
        for text in ["", "s", "-1", "1.5s", "5 m", "1d", "99999999999999999999", "99999999999999999h"] {
            let message = duration(text).expect_err(text);
            assert!(message.contains("write for example `30s`"), "{message}");
        }
    }
}
