//! `holmd` with bugs on demand: `HOLM_PLANT=local-read` breaks the promise of that name (a comma between several).
//! `HOLM_CLOCK_FILE` names a file with a number: `run` takes the wall clock to be wrong by so many milliseconds, from
//! when it is written on, and answers in a file beside it that ends in `seen`. `HOLM_CLOCK_RATE=FROM_NS:PPM` lets the
//! clock since boot, which leases go by, run faster than the kernel's by so many millionths from that moment on; shims
//! inherit it. For the test suites only. `holmd` itself neither reads the variables nor can break anything.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use holm_model::planted::{Plant, Rate, plant, set_clock_rate, set_wall_offset_ms};

fn main() -> ExitCode {
    let names = std::env::var("HOLM_PLANT").unwrap_or_default();
    let named = |name: &str| Plant::named(name).ok_or_else(|| name.to_owned());
    match names.split(',').filter(|name| !name.is_empty()).map(named).collect() {
        Ok(chosen) => plant(chosen),
        Err(name) => {
            eprintln!("holmd-planted: HOLM_PLANT: there is no bug `{name}`");
            return ExitCode::from(2);
        }
    }
    if let Ok(text) = std::env::var("HOLM_CLOCK_RATE") {
        match rate(&text) {
            Some(rate) => {
                set_clock_rate(rate);
                said(&text);
            }
            None => {
                eprintln!("holmd-planted: HOLM_CLOCK_RATE: `{text}` is not nanoseconds:millionths");
                return ExitCode::from(2);
            }
        }
    }
    // Shims are single-threaded, and have no use for wall clocks.
    let runs = std::env::args().nth(1).is_some_and(|command| command == "run");
    if let Some(file) = std::env::var_os("HOLM_CLOCK_FILE").map(PathBuf::from).filter(|_| runs) {
        std::thread::spawn(move || {
            let mut seen = None;
            loop {
                seen = follow(&file, seen);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
    }
    holm_node::program::main()
}

/// Says how fast the clock goes to whoever gave the daemon a clock file, so that it is not taken for granted.
fn said(rate: &str) {
    if let Some(file) = std::env::var_os("HOLM_CLOCK_FILE") {
        let _ = std::fs::write(Path::new(&file).with_extension("rate"), rate);
    }
}

fn rate(text: &str) -> Option<Rate> {
    let (from_ns, ppm) = text.split_once(':')?;
    Some(Rate { from_ns: from_ns.parse().ok()?, ppm: ppm.parse().ok()? })
}

/// What the file says now; one that is missing, or is being written, changes nothing.
fn follow(file: &Path, seen: Option<i64>) -> Option<i64> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let Ok(offset) = text.trim().parse() else { return seen };
    if seen != Some(offset) {
        set_wall_offset_ms(offset);
        // Whoever waits for it in vain knows that it has not taken hold.
        let _ = std::fs::write(file.with_extension("seen"), offset.to_string());
    }
    Some(offset)
}
