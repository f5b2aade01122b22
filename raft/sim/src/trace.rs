//! What happened, a line an event: printed, or only summed up, so that two runs can be told to be the same.

use std::fmt;
use std::io::Write;

use crate::below::{MS, now};

#[derive(Debug, Default)]
pub(crate) struct Trace {
    prints: bool,
    sum: u64,
    lines: u64,
}

impl Trace {
    pub(crate) fn new(prints: bool) -> Self {
        Self { prints, sum: hash(&[]), lines: 0 }
    }

    pub(crate) fn line(&mut self, what: fmt::Arguments<'_>) {
        let line = format!("{:>10}.{:03} {what}\n", now() / MS, now() % MS / 1_000);
        self.sum = continued(self.sum, line.as_bytes());
        self.lines += 1;
        if self.prints {
            // A reader that has seen enough is no reason to stop.
            let _ = std::io::stdout().write_all(line.as_bytes());
        }
    }

    /// Number of lines, and a sum over all.
    pub(crate) fn summary(&self) -> String {
        format!("{} lines, {:016x}", self.lines, self.sum)
    }
}

/// FNV-1a: the same for ever, and nobody attacks it here.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    continued(0xcbf2_9ce4_8422_2325, bytes)
}

fn continued(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
