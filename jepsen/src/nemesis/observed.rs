//! What trouble cost: how long the cluster took to be whole again, and what a daemon that was cut off wrote to
//! its log and took of the CPU meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::harness::Daemon;
use crate::history::FaultKind;

/// What a daemon had used by some moment.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    pid: Option<i32>,
    at: Instant,
    log_bytes: u64,
    cpu_ticks: u64,
}

impl Footprint {
    pub fn of(daemon: &Daemon) -> Self {
        let log_bytes = daemon.log_file().metadata().map_or(0, |meta| meta.len());
        let pid = daemon.pid();
        Self { pid, at: Instant::now(), log_bytes, cpu_ticks: pid.and_then(ticks).unwrap_or(0) }
    }
}

/// User and system time of a process, in clock ticks.
fn ticks(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// The worst of each kind.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    recovered: BTreeMap<String, Vec<Duration>>,
    /// Bytes a minute.
    log_bytes: Option<u64>,
    /// Per cent of one CPU.
    cpu: Option<u64>,
    /// Longest time in which no probe was acknowledged.
    pub unavailable: Duration,
}

impl Observed {
    /// From the end of a fault until every node served again.
    pub fn recovered(&mut self, kind: FaultKind, took: Duration) {
        self.recovered.entry(format!("{kind:?}")).or_default().push(took);
    }

    /// A daemon was cut off between these two.
    pub fn cut_off(&mut self, before: &Footprint, after: &Footprint) {
        let ms = u64::try_from((after.at - before.at).as_millis()).unwrap_or(u64::MAX).max(1);
        let bytes = after.log_bytes.saturating_sub(before.log_bytes) * 60_000 / ms;
        self.log_bytes = self.log_bytes.max(Some(bytes));
        // Another process after a kill: its start is not what is asked for.
        if before.pid == after.pid {
            let cpu = after.cpu_ticks.saturating_sub(before.cpu_ticks) * 10 * 100 / ms;
            self.cpu = self.cpu.max(Some(cpu));
        }
    }

    /// A line each.
    pub fn figures(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.unavailable.is_zero() {
            lines.push(format!("nobody could write for {} ms, at most", self.unavailable.as_millis()));
        }
        for (kind, took) in &self.recovered {
            let longest = took.iter().max().copied().unwrap_or_default();
            lines.push(format!("every node served {} ms after {kind} ended, at most", longest.as_millis()));
        }
        if let Some(bytes) = self.log_bytes {
            let cpu = self.cpu.unwrap_or(0);
            lines.push(format!(
                "a daemon cut off logged {bytes} bytes a minute and took {cpu} % of a CPU, at most"
            ));
        }
        lines
    }
}
