//! What the VMM writes to standard error: an append-only file, kept short while it grows, because an
//! unread pipe would hang the VMM. Its last words explain a failure.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Above this the file is cut to its tail.
const LIMIT_BYTES: u64 = 256 * 1024;
/// What is kept of it.
const TAIL_BYTES: u64 = 32 * 1024;
/// How much of it goes into a reason.
const QUOTED_LINES: usize = 4;
const QUOTED_BYTES: usize = 1000;

/// The file, as the shim sees it.
pub struct VmmLog {
    path: PathBuf,
}

impl VmmLog {
    /// Empties the file at `path` and returns the end for the VMM.
    pub fn create(path: PathBuf) -> io::Result<(Self, File)> {
        File::create(&path)?;
        let file = OpenOptions::new().append(true).open(&path)?;
        Ok((Self { path }, file))
    }

    /// The one that was made at `path`.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Keeps it short. The VMM appends, so it goes on at the new end.
    pub fn trim(&self) {
        let Ok(file) = OpenOptions::new().read(true).write(true).open(&self.path) else { return };
        if file.metadata().is_ok_and(|m| m.len() > LIMIT_BYTES) {
            let tail = read_tail(&file, TAIL_BYTES);
            // What the VMM wrote between the two is lost; it is a log.
            let _ = file.set_len(0);
            if let Ok(mut end) = OpenOptions::new().append(true).open(&self.path) {
                let _ = io::Write::write_all(&mut end, &tail);
            }
        }
    }

    /// The last lines that tell of trouble, ready to be quoted; empty when there is none.
    pub fn last_words(&self) -> String {
        let Ok(file) = File::open(&self.path) else { return String::new() };
        quote(&String::from_utf8_lossy(&read_tail(&file, TAIL_BYTES)))
    }
}

fn read_tail(file: &File, bytes: u64) -> Vec<u8> {
    let len = file.metadata().map_or(0, |m| m.len());
    let from = len.saturating_sub(bytes);
    let mut tail = vec![0; (len - from) as usize];
    let read = file.read_at(&mut tail, from).unwrap_or(0);
    tail.truncate(read);
    tail
}

/// The last lines that are no warning and no backtrace, without the prefix of the logger.
fn quote(text: &str) -> String {
    let mut lines = Vec::new();
    let mut in_backtrace = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let logged = line.starts_with("cloud-hypervisor:");
        in_backtrace = line.starts_with("Stack backtrace") || (in_backtrace && !logged);
        let harmless = ["> WARN:", "> INFO:", "> DEBUG:"].iter().any(|level| line.contains(level));
        if !in_backtrace && !harmless {
            lines.push(line.split_once(" -- ").filter(|_| logged).map_or(line, |(_, message)| message));
        }
    }
    let quoted = lines[lines.len().saturating_sub(QUOTED_LINES)..].join(" | ");
    let from = quoted.len().saturating_sub(QUOTED_BYTES);
    let from = (from..quoted.len()).find(|at| quoted.is_char_boundary(*at)).unwrap_or(0);
    quoted[from..].to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_file_is_cut_to_its_tail_and_the_writer_goes_on_behind_it() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("vmm.log");
        let (log, mut vmm) = VmmLog::create(path.clone()).expect("created");
        for i in 0..100_000 {
            writeln!(vmm, "line {i}").expect("written");
        }
        log.trim();
        writeln!(vmm, "last").expect("written");
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(text.len() as u64 <= TAIL_BYTES + 10, "{}", text.len());
        assert!(text.ends_with("line 99999\nlast\n"));
    }

    #[test]
    fn last_words_leave_out_warnings_and_are_short() {
        let text =
            "cloud-hypervisor: 0.01s: <vcpu0> WARN:a.rs:1 -- no SMT isolation\nError: boom\n\n0: why\n";
        assert_eq!(quote(text), "Error: boom | 0: why");
        assert!(quote(&"é".repeat(5000)).len() <= QUOTED_BYTES);
        assert_eq!(quote(""), "");
    }
}
