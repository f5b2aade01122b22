//! The history file: one JSON object a line, the run's parameters first, then every invocation, outcome and
//! fault in the order in which they happened, on one monotonic clock. Nothing is held back, so that a
//! harness that dies leaves what it saw.

use std::fs::File;
use std::io::{LineWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use tokio::sync::watch;

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    began: Instant,
    file: Mutex<(u64, LineWriter<File>)>,
    acknowledged: watch::Sender<u64>,
}

#[derive(Serialize)]
struct Line<'a, T> {
    index: u64,
    time_ns: u64,
    #[serde(flatten)]
    what: &'a T,
}

impl Journal {
    /// Makes the file and writes the parameters.
    ///
    /// # Errors
    /// When that is not possible.
    pub fn create(path: &Path, parameters: &impl Serialize) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let journal = Self {
            path: path.to_owned(),
            began: Instant::now(),
            file: Mutex::new((0, LineWriter::new(file))),
            acknowledged: watch::Sender::new(0),
        };
        journal.write(parameters);
        Ok(journal)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Nanoseconds since the run began.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Appends one line and says at what time.
    ///
    /// # Panics
    /// When the file cannot be written: without a history there is no verdict.
    pub fn write(&self, what: &impl Serialize) -> u64 {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (index, writer) = &mut *file;
        let time_ns = self.now_ns();
        let line = Line { index: *index, time_ns, what };
        let line = serde_json::to_string(&line).expect("a record is plain data");
        writeln!(writer, "{line}").expect("the history file can be written");
        *index += 1;
        time_ns
    }

    /// Counts one acknowledged write: the nemesis waits for these, never for time to pass.
    pub fn acknowledge(&self) {
        self.acknowledged.send_modify(|count| *count += 1);
    }

    /// The count of acknowledged writes.
    pub fn acknowledged(&self) -> watch::Receiver<u64> {
        self.acknowledged.subscribe()
    }
}
