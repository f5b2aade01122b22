//! What a run was worth: a table of verdicts for people, the same as JSON, and how to do it again.

mod charts;
pub mod edn;
mod moves;
mod page;
mod rules;
mod series;
pub mod serve;
mod svg;
mod timeline;
mod vms;

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::checker::{Finding, Verdict};

/// A run in numbers.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counts {
    pub faults: usize,
    pub ok: u64,
    pub fail: u64,
    pub info: u64,
    /// Longest time without an acknowledged write.
    pub unavailable_ms: u64,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub test: String,
    pub seed: u64,
    /// Does it again, with the same choices.
    pub command: String,
    pub took_s: f64,
    pub verdicts: Vec<Verdict>,
    /// What else was measured, one line each.
    pub figures: Vec<String>,
    pub counts: Counts,
    /// History, logs and verdicts.
    pub store: PathBuf,
    /// Data folders of the nodes, kept for whoever looks into a run that is not valid.
    #[serde(skip)]
    pub kept: Option<PathBuf>,
}

impl Report {
    pub fn is_valid(&self) -> bool {
        !self.verdicts.is_empty() && self.verdicts.iter().all(Verdict::is_valid)
    }

    /// Writes it into the run's folder: as JSON, and as pages.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn write(&self) -> anyhow::Result<()> {
        std::fs::write(self.store.join("report.json"), serde_json::to_string_pretty(self)?)?;
        page::write(self)
    }

    /// Checkers that found a rule broken.
    pub fn broken(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(|verdict| matches!(verdict.finding, Finding::Invalid(_)))
    }

    /// Whether a rule was broken, as opposed to not proved.
    pub fn is_invalid(&self) -> bool {
        self.broken().next().is_some()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} with seed {}, {:.1} s", self.test, self.seed, self.took_s)?;
        for verdict in &self.verdicts {
            let (word, because) = match &verdict.finding {
                Finding::Valid => ("valid", &[][..]),
                Finding::Invalid(because) => ("INVALID", because.as_slice()),
                Finding::Unknown(because) => ("UNKNOWN", std::slice::from_ref(because)),
            };
            writeln!(f, "  {:<13} {word:<8} {}", verdict.checker, verdict.figures)?;
            for line in because {
                writeln!(f, "      {}", line.replace('\n', "\n      "))?;
            }
        }
        for figure in &self.figures {
            writeln!(f, "  {figure}")?;
        }
        let word = if self.is_valid() { "valid" } else { "NOT valid" };
        writeln!(f, "  {word}; report: {}", self.store.join("index.html").display())?;
        if !self.is_valid() {
            writeln!(f, "  again: {}", self.command)?;
        }
        Ok(())
    }
}
