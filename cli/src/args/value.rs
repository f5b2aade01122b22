//! Values and options that several commands share: durations, whether to wait, keys with values, inventories.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;

use crate::error::Error;

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

/// `KEY=VALUE`.
///
/// # Errors
/// A sentence that names the accepted form.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not KEY=VALUE")),
    }
}

/// A key to set, or with a `-` behind it, to remove.
///
/// # Errors
/// A sentence that names the accepted forms.
pub fn key_change(text: &str) -> Result<(String, Option<String>), String> {
    match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) if !key.is_empty() => Ok((key.to_owned(), Some(value.to_owned()))),
        (None, Some(key)) if !key.is_empty() => Ok((key.to_owned(), None)),
        _ => Err(format!("`{text}` is neither KEY=VALUE, which sets a key, nor KEY-, which removes it")),
    }
}

/// Keys with what is said of each, once.
///
/// # Errors
/// [`Error::Usage`] naming a key that is given twice: one of them cannot be meant.
pub fn once<V>(pairs: impl IntoIterator<Item = (String, V)>) -> Result<BTreeMap<String, V>, Error> {
    let mut map = BTreeMap::new();
    for (key, value) in pairs {
        if map.contains_key(&key) {
            return Err(Error::Usage { detail: format!("`{key}` is given twice: give it once"), hint: None });
        }
        map.insert(key, value);
    }
    Ok(map)
}

/// A number with decimals, as multipliers and ratios are.
///
/// # Errors
/// What is no number, and what is one in name only (`NaN`, `inf`).
pub fn decimal(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("`{text}` is not a number; write for example `1.5` or `-1`"))
}

/// A number to set, or `reported` for what the node reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Said<T> {
    Is(T),
    Reported,
}

impl<T> Said<T> {
    /// The number; none for what is reported.
    pub fn number(self) -> Option<T> {
        match self {
            Self::Is(number) => Some(number),
            Self::Reported => None,
        }
    }
}

const REPORTED: &str = "reported";

fn amount(text: &str) -> Result<Said<u64>, String> {
    if text == REPORTED {
        return Ok(Said::Reported);
    }
    let number = text.parse().map(Said::Is);
    number.map_err(|_| format!("`{text}` is neither a whole number nor `{REPORTED}`"))
}

fn ratio(text: &str) -> Result<Said<f64>, String> {
    if text == REPORTED {
        return Ok(Said::Reported);
    }
    decimal(text).map(Said::Is).map_err(|why| format!("{why}, or `{REPORTED}`"))
}

/// What is offered of one resource class instead of what a node reports: what is not given stays as it is, and
/// `reported` takes back what was said.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
pub struct InventoryOptions {
    /// VCPU, MEMORY_MB (in MiB), DISK_GB (in GiB), or a class of your own: CUSTOM_…
    pub class: String,
    /// How much there is, or `reported`, as in each option: what the node reports.
    #[arg(long, value_name = "N", value_parser = amount, group = "change")]
    pub total: Option<Said<u64>>,
    /// How much is kept for the host itself.
    #[arg(long, value_name = "N", value_parser = amount, group = "change")]
    pub reserved: Option<Said<u64>>,
    /// Overcommit: 1 for none, 4 for four times.
    #[arg(long, value_name = "RATIO", value_parser = ratio, group = "change")]
    pub ratio: Option<Said<f64>>,
    /// Least amount of one VM.
    #[arg(long, value_name = "N", value_parser = amount, group = "change")]
    pub min_unit: Option<Said<u64>>,
    /// Greatest amount of one VM.
    #[arg(long, value_name = "N", value_parser = amount, group = "change")]
    pub max_unit: Option<Said<u64>>,
    /// A VM's amount is a multiple of this.
    #[arg(long, value_name = "N", value_parser = amount, group = "change")]
    pub step_size: Option<Said<u64>>,
    /// Take back all that was said of the class.
    #[arg(long, group = "change", conflicts_with_all = ["total", "reserved", "ratio", "min_unit", "max_unit", "step_size"])]
    pub reset: bool,
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
    fn a_key_is_set_or_removed() {
        let set = |key: &str, value: &str| Ok((key.to_owned(), Some(value.to_owned())));
        assert_eq!(key_change("disk=nvme"), set("disk", "nvme"));
        assert_eq!(key_change("disk="), set("disk", ""));
        assert_eq!(key_change("a=b-"), set("a", "b-"));
        assert_eq!(key_change("disk-"), Ok(("disk".to_owned(), None)));
        for text in ["", "-", "=x", "disk"] {
            assert!(key_change(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_key_is_given_once() {
        let pairs = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), 1)).collect::<Vec<_>>();
        assert_eq!(once(pairs(&["a", "b"])).unwrap().len(), 2);
        let twice = once(pairs(&["a", "b", "a"])).unwrap_err();
        assert_eq!(twice.to_string(), "`a` is given twice: give it once");
    }

    #[test]
    fn an_amount_is_set_or_as_reported() {
        assert_eq!(amount("4"), Ok(Said::Is(4)));
        assert_eq!(amount("reported"), Ok(Said::Reported));
        assert_eq!(ratio("1.5"), Ok(Said::Is(1.5)));
        for text in ["", "-1", "1.5", "default"] {
            assert!(amount(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_number_is_a_number() {
        assert_eq!(decimal("-1.5"), Ok(-1.5));
        for text in ["NaN", "inf", "", "1,5", "1e999"] {
            assert!(decimal(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_wrong_duration_is_answered_with_the_accepted_forms() {
        for text in ["", "s", "-1", "1.5s", "5 m", "1d", "99999999999999999999", "99999999999999999h"] {
            let message = duration(text).expect_err(text);
            assert!(message.contains("write for example `30s`"), "{message}");
        }
    }
}
