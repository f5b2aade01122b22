//! Placement decisions, measured by the scheduler's own benchmark.

use anyhow::Context;

use super::report::Measurement;
use crate::process;
use crate::workspace;

/// Runs it.
///
/// # Errors
/// When it does not build, run, or print what it should.
pub fn measure(quick: bool) -> anyhow::Result<Vec<Measurement>> {
    let mut arguments =
        vec!["run", "--quiet", "--release", "--package", "holm-sched", "--example", "placement_bench"];
    if quick {
        arguments.extend(["--", "--quick"]);
    }
    let lines = process::capture(&mut workspace::cargo(&arguments))?;
    lines
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("not a measurement: {line}")))
        .collect()
}
