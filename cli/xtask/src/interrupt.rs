//! Ctrl-C and its like raise a flag that all waiting looks at; so cleaning up is the ordinary way out of
//! `main`, not something done in a signal handler.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static RAISED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// How often waiting looks around.
const TICK: Duration = Duration::from_millis(10);

/// Takes over SIGINT, SIGTERM and SIGHUP.
///
/// # Errors
/// When the kernel refuses.
pub fn watch() -> anyhow::Result<()> {
    let raised = RAISED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, raised.clone()).context("cannot watch for signals")?;
    }
    Ok(())
}

/// Whether to go on.
///
/// # Errors
/// When a signal has come.
pub fn check() -> anyhow::Result<()> {
    if RAISED.get().is_some_and(|raised| raised.load(Ordering::Relaxed)) {
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
