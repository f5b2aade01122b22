//! Ctrl-C and its like. The signals are blocked in every thread and taken by one, which raises a flag that
//! all waiting looks at; so cleaning up is the ordinary way out of `main`, not something done in a handler.
//! Children start with the signals unblocked, as `std` starts them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use nix::sys::signal::{SigSet, Signal};

static RAISED: AtomicBool = AtomicBool::new(false);

/// How often waiting looks around.
const TICK: Duration = Duration::from_millis(10);

/// Takes over SIGINT, SIGTERM and SIGHUP. Call it before any thread is started.
///
/// # Errors
/// When the kernel refuses to block them.
pub fn watch() -> anyhow::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGHUP);
    signals.thread_block()?;
    thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            if RAISED.swap(true, Ordering::SeqCst) {
                continue;
            }
            eprintln!("{signal}: cleaning up");
        }
    });
    Ok(())
}

/// Whether to go on.
///
/// # Errors
/// When a signal has come.
pub fn check() -> anyhow::Result<()> {
    if RAISED.load(Ordering::SeqCst) {
        bail!("interrupted");
    }
    Ok(())
}

/// Asks `done` again and again until it has an answer.
///
/// # Errors
/// When `done` fails, on a signal, or when there is no answer within `limit`; `what` says what was waited
/// for.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut done: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        check()?;
        if let Some(answer) = done()? {
            return Ok(answer);
        }
        if start.elapsed() > limit {
            bail!("waited {} s in vain for {what}", limit.as_secs());
        }
        thread::sleep(TICK);
    }
}
