//! `holm quota …` as typed.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Lists projects with what they hold, beside what they may hold.
    List,
    /// Shows what a project holds, beside what it may hold.
    Show(Target),
    /// Sets limits of the project that `--project` or HOLM_PROJECT names.
    Set(Set),
}

#[derive(Debug, Args)]
pub struct Target {
    /// Name of the project; without it, the one that `--project` or HOLM_PROJECT names.
    #[arg(id = "shown", value_name = "PROJECT")]
    pub project: Option<String>,
}

#[derive(Debug, Args)]
pub struct Set {
    /// `VCPU=16`, `MEMORY_MB=32768`, `DISK_GB=500`, `VMS=20`, `CUSTOM_…=N`; `VCPU=unlimited` lifts a limit.
    #[arg(required = true, value_name = "CLASS=LIMIT", value_parser = limit)]
    pub limits: Vec<(String, Option<u64>)>,
}

fn limit(text: &str) -> Result<(String, Option<u64>), String> {
    let wrong = || format!("`{text}` is not CLASS=LIMIT, such as `VCPU=16` or `VCPU=unlimited`");
    let (class, limit) = text.split_once('=').filter(|(class, _)| !class.is_empty()).ok_or_else(wrong)?;
    match limit {
        "unlimited" => Ok((class.to_owned(), None)),
        number => Ok((class.to_owned(), Some(number.parse().map_err(|_| wrong())?))),
    }
}
