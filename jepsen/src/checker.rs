//! Checkers: pure functions over what was recorded, one rule a file. A verdict is valid, invalid or unknown,
//! and unknown never passes. Each has unit tests that feed it a bad history it must reject.

pub mod acknowledged;
pub mod capacity;
pub mod claims;
pub mod epochs;
pub mod events;
pub mod failover;
pub mod faults;
pub mod fresh;
pub mod leaders;
pub mod lifetimes;
pub mod linearizable;
pub mod once;
pub mod power;
pub mod quota;
pub mod reads;
pub mod replicas;
pub mod serializable;
pub mod settled;
pub mod spared;
pub mod states;
#[cfg(test)]
mod testing;
pub mod unique;
pub mod vacuity;
pub mod whole;

use serde::Serialize;

/// Most violations that a verdict names.
const NAMED: usize = 10;

/// What a checker found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "because", rename_all = "kebab-case")]
pub enum Finding {
    Valid,
    /// The rule was broken: each time, with the operations that show it.
    Invalid(Vec<String>),
    /// It could not be told. Never a pass.
    Unknown(String),
}

/// One checker's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub checker: &'static str,
    #[serde(flatten)]
    pub finding: Finding,
    /// How much was looked at.
    pub figures: String,
}

impl Verdict {
    /// Valid when there are no violations.
    pub fn of(checker: &'static str, violations: Vec<String>, figures: String) -> Self {
        let finding = match violations.len() {
            0 => Finding::Valid,
            count => {
                let mut named: Vec<_> = violations.into_iter().take(NAMED).collect();
                if count > NAMED {
                    named.push(format!("and {} more", count - NAMED));
                }
                Finding::Invalid(named)
            }
        };
        Self { checker, finding, figures }
    }

    /// It could not be told.
    pub fn unknown(checker: &'static str, why: impl Into<String>) -> Self {
        Self { checker, finding: Finding::Unknown(why.into()), figures: String::new() }
    }

    pub fn is_valid(&self) -> bool {
        self.finding == Finding::Valid
    }
}
