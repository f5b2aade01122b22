//! Memory of the host, from `/proc`: what is there, how long nobody got on for lack of it, and whether the kernel
//! killed somebody.

use std::path::Path;
use std::time::{Duration, Instant};

use super::facts::Memory;

/// A kill is news for this long.
const NEWS: Duration = Duration::from_secs(600);

/// Remembers the kernel's count of processes it killed.
#[derive(Debug, Default)]
pub struct MemoryWatch {
    kills: Option<u64>,
    killed_at: Option<Instant>,
}

impl MemoryWatch {
    /// The memory as `proc` has it at present.
    pub fn look(&mut self, proc: &Path) -> Option<Memory> {
        let read = |name: &str| std::fs::read_to_string(proc.join(name)).ok();
        let meminfo = read("meminfo")?;
        if let Some(kills) = read("vmstat").and_then(|text| number(&text, "oom_kill ")) {
            if self.kills.is_some_and(|before| kills > before) {
                self.killed_at = Some(Instant::now());
            }
            self.kills = Some(kills);
        }
        Some(Memory {
            total_mib: number(&meminfo, "MemTotal:")? / 1024,
            available_mib: number(&meminfo, "MemAvailable:")? / 1024,
            stalled_thousandths: read("pressure/memory").and_then(|text| stalled_thousandths(&text)),
            killed_lately: self.killed_at.is_some_and(|at| at.elapsed() < NEWS),
        })
    }
}

/// The number behind a name at the beginning of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// `full avg10=1.25 …` is 12 thousandths: nobody got on.
fn stalled_thousandths(pressure: &str) -> Option<u64> {
    let full = pressure.lines().find_map(|line| line.strip_prefix("full "))?;
    let percent = full.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?;
    let (whole, hundredths) = percent.split_once('.')?;
    let hundredths = hundredths.get(..2)?.parse::<u64>().ok()?;
    Some(whole.parse::<u64>().ok()? * 10 + hundredths / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(proc: &Path, kills: u64) {
        std::fs::create_dir_all(proc.join("pressure")).unwrap();
        let meminfo = "MemTotal:       16303428 kB\nMemFree:  1 kB\nMemAvailable:    2097152 kB\n";
        std::fs::write(proc.join("meminfo"), meminfo).unwrap();
        std::fs::write(proc.join("vmstat"), format!("nr_free_pages 7\noom_kill {kills}\n")).unwrap();
        let pressure = "some avg10=40.00 avg60=0.00 avg300=0.00 total=1\n\
                        full avg10=12.34 avg60=0.00 avg300=0.00 total=1\n";
        std::fs::write(proc.join("pressure/memory"), pressure).unwrap();
    }

    #[test]
    fn the_kernels_words_are_understood() {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = MemoryWatch::default();
        assert_eq!(watch.look(dir.path()), None);
        write(dir.path(), 3);
        let expected = Memory {
            total_mib: 15_921,
            available_mib: 2_048,
            stalled_thousandths: Some(123),
            killed_lately: false,
        };
        assert_eq!(watch.look(dir.path()), Some(expected), "what was killed before the daemon began is old");
        write(dir.path(), 4);
        assert_eq!(watch.look(dir.path()), Some(Memory { killed_lately: true, ..expected }));
        std::fs::remove_dir_all(dir.path().join("pressure")).unwrap();
        let without = Memory { stalled_thousandths: None, killed_lately: true, ..expected };
        assert_eq!(watch.look(dir.path()), Some(without), "a kernel without PSI");
    }

    #[test]
    fn this_host_tells_its_memory() {
        let memory = MemoryWatch::default().look(Path::new("/proc")).unwrap();
        assert!(memory.total_mib > memory.available_mib && memory.available_mib > 0);
    }
}
