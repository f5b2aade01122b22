//! `holm check`: asks everybody, judges what they say, prints a line a check. Exit code 1 if anything is
//! wrong. Asking is in `gather`, judging in `judge`, which is pure.

mod failover;
mod gather;
mod judge;

use serde::Serialize;

use super::Context;
use crate::args::Format;
use crate::error::Error;
use crate::output::Record;
use crate::output::text::{self, Now};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Level {
    Ok,
    /// Worth knowing: as configured, an operator's own doing, or what follows from something that is wrong.
    Note,
    Wrong,
}

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    level: Level,
    message: String,
}

impl Finding {
    fn new(check: &'static str, level: Level, message: impl Into<String>) -> Self {
        Self { check, level, message: message.into() }
    }
}

impl Record for Finding {
    const COLUMNS: &'static [&'static str] = &["CHECK", "RESULT", "MESSAGE"];

    fn name(&self) -> String {
        self.check.into()
    }

    fn row(&self, _now: Now) -> Vec<String> {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Wrong => "WRONG",
        };
        vec![self.check.into(), level.into(), self.message.clone()]
    }

    fn detail(&self, now: Now) -> String {
        self.row(now).join("  ") + "\n"
    }
}

pub async fn run(cx: &Context) -> Result<(), Error> {
    let seen = gather::all(&cx.client).await?;
    let findings = judge::all(&seen);
    let wrong: Vec<_> = findings.iter().filter(|finding| finding.level == Level::Wrong).cloned().collect();
    if cx.output.format == Format::Name {
        cx.output.list(&wrong)?;
    } else {
        cx.output.list(&findings)?;
    }
    match wrong.len() {
        0 => Ok(()),
        n => Err(Error::failed(format!("{} wrong", text::count(n, "thing")))),
    }
}
