//! A run's folder: what was written there while it ran, and the verdict that follows from it. Live runs are
//! judged through here too, so the same files always give the same verdict.

use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Judged, Parameters, Test, append, catch_up, did_not_heal, failover, given_back, lagging_host, limits,
    register, stale_read, vm_lifecycle, wiped,
};
use crate::history::stored::{self, Line};
use crate::history::{Fault, Operation};
use crate::report::{Counts, Report};

/// Every operation and fault.
pub(super) const HISTORY: &str = "history.jsonl";
/// What was looked at when the trouble was over. Missing where the cluster did not come back.
pub(super) const EVIDENCE: &str = "evidence.json";

/// What a run left, for a judge.
pub(super) struct Stored<E> {
    pub(super) parameters: Parameters,
    pub(super) evidence: E,
    lines: Vec<Line>,
}

impl<E> Stored<E> {
    pub(super) fn operations<C: DeserializeOwned, A: DeserializeOwned>(
        &self,
    ) -> Result<Vec<Operation<C, A>>> {
        stored::operations(&self.lines)
    }

    pub(super) fn faults(&self) -> Result<Vec<Fault>> {
        stored::faults(&self.lines)
    }
}

/// Judges the run in `folder` again, from its files alone.
///
/// # Errors
/// When they are not the files of a run.
pub fn check(folder: &Path) -> Result<Report> {
    let (parameters, judged) = judge(folder)?;
    Ok(Report {
        test: parameters.test,
        seed: parameters.seed,
        command: parameters.command,
        took_s: 0.0,
        verdicts: judged.verdicts,
        figures: judged.figures,
        counts: judged.counts,
        store: folder.to_owned(),
        kept: None,
    })
}

/// What happened, of a run that did not get as far as its evidence.
pub(super) fn tally(folder: &Path) -> Result<Counts> {
    let lines = stored::lines(&folder.join(HISTORY))?;
    let ended = |kind: &str| {
        lines.iter().filter(|line| line.number("op").is_some() && line.kind() == kind).count() as u64
    };
    let faults = stored::faults(&lines)?.len();
    Ok(Counts { faults, ok: ended("ok"), fail: ended("fail"), info: ended("info"), ..Counts::default() })
}

/// What the run in `folder` was asked for.
pub(super) fn parameters(folder: &Path) -> Result<Parameters> {
    first(&stored::lines(&folder.join(HISTORY))?)
}

fn first(lines: &[Line]) -> Result<Parameters> {
    let first = lines.first().context("the history is empty")?;
    serde_json::from_value(Value::Object(first.body.clone()))
        .context("the history does not begin with the parameters of a run")
}

pub(super) fn judge(folder: &Path) -> Result<(Parameters, Judged)> {
    let lines = stored::lines(&folder.join(HISTORY))?;
    let parameters = first(&lines)?;
    let test = Test::from_str(&parameters.test, false)
        .map_err(|_| anyhow::anyhow!("there is no test `{}`", parameters.test))?;
    let file = folder.join(EVIDENCE);
    if !file.exists() {
        let error = anyhow::anyhow!(
            "there is no {EVIDENCE}: the cluster did not come back, or the harness was ended"
        );
        return Ok((parameters, Judged { counts: tally(folder)?, ..did_not_heal(&error) }));
    }
    let evidence =
        serde_json::from_slice(&std::fs::read(&file)?).with_context(|| file.display().to_string())?;
    let stored = Stored { parameters: parameters.clone(), evidence, lines };
    let judged = match test {
        Test::VmLifecycle => vm_lifecycle::judge(&stored.typed()?),
        Test::StaleRead => stale_read::judge(&stored.typed()?),
        Test::Register => register::judge(&stored.typed()?),
        Test::Append => append::judge(&stored.typed()?),
        Test::Limits => limits::judge(&stored.typed()?),
        Test::Failover => failover::judge(&stored.typed()?),
        Test::LaggingHost => lagging_host::judge(&stored.typed()?),
        Test::GivenBack => given_back::judge(&stored.typed()?),
        Test::CatchUp => catch_up::judge(&stored.typed()?),
        Test::Wiped => wiped::judge(&stored.typed()?),
    };
    Ok((parameters, judged?))
}

impl Stored<Value> {
    fn typed<E: DeserializeOwned>(self) -> Result<Stored<E>> {
        let evidence = serde_json::from_value(self.evidence).context("the evidence is of another version")?;
        Ok(Stored { parameters: self.parameters, evidence, lines: self.lines })
    }
}
