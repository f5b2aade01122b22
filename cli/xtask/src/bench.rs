//! `cargo xtask bench`: what the design has a budget for, in one run and one table.

mod etcd;
mod load;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::workspace;
use report::Report;

#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Also write the table as JSON: a list of `{name, unit, value, p50, p99, max, note}`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fewer rounds: for a look, not for a comparison.
    #[arg(long)]
    quick: bool,
}

/// Measures and prints.
///
/// # Errors
/// When something cannot be measured that should be.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut report = Report::default();
    let folder = tempfile::tempdir_in(workspace::root().join("target"))?;
    if let Some(etcd) = etcd::Etcd::start(folder.path())? {
        for clients in [1, 64, 256] {
            report.add([load::run(
                &format!("etcd {clients}"),
                etcd.writers(clients),
                Duration::from_secs(3),
            )?]);
        }
    }
    report.print();
    if let Some(file) = &arguments.json {
        report.write_json(file)?;
    }
    Ok(())
}
