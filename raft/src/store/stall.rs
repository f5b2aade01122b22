//! How long the disk has taken so far for what was asked of it last. An fsync that hangs answers nothing, so
//! the time it takes is watched from outside; a thread with nothing to do writes a little from time to time, so
//! that a disk that hangs is noticed before somebody waits for it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::guarded::Guarded;

/// An idle storage thread tries the disk this often.
pub(super) const PROBE_PERIOD: Duration = Duration::from_secs(4);
/// What it writes to, in the data directory.
const PROBE_FILE: &str = "probe";
/// One block, written in place: no journal, no new block.
const PROBE_BYTES: [u8; 4096] = [0; 4096];

/// Since when the thread has been at one operation.
#[derive(Default)]
pub(super) struct Busy(Guarded<Option<Instant>>);

impl Busy {
    pub(super) fn begin(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    pub(super) fn end(&self) {
        *self.0.lock() = None;
    }

    /// Zero between two operations.
    pub(super) fn elapsed(&self) -> Duration {
        self.0.lock().map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Writes one block of the data directory's disk through to it.
pub(super) fn probe(data_dir: &Path) -> io::Result<()> {
    let file: File =
        OpenOptions::new().create(true).truncate(false).write(true).open(data_dir.join(PROBE_FILE))?;
    file.write_all_at(&PROBE_BYTES, 0)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_from_the_beginning_of_an_operation_to_its_end() {
        let busy = Busy::default();
        assert_eq!(busy.elapsed(), Duration::ZERO);
        busy.begin();
        std::thread::sleep(Duration::from_millis(5));
        assert!(busy.elapsed() >= Duration::from_millis(5));
        busy.end();
        assert_eq!(busy.elapsed(), Duration::ZERO);
    }

    #[test]
    fn a_probe_writes_in_place() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            probe(dir.path()).unwrap();
            assert_eq!(dir.path().join(PROBE_FILE).metadata().unwrap().len(), 4096);
        }
    }
}
