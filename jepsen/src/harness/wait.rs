//! Waiting for a condition, with a bound and with words that say what was waited for.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often a condition is looked at.
const TICK: Duration = Duration::from_millis(10);

/// Asks `done` again and again until it has an answer.
///
/// # Errors
/// When `done` fails, or when there is no answer within `limit`.
pub async fn wait_for<T, F: Future<Output = Result<Option<T>>>>(
    what: &str,
    limit: Duration,
    mut done: impl FnMut() -> F,
) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = done().await? {
            return Ok(answer);
        }
        if start.elapsed() > limit {
            bail!("waited {} s in vain for {what}", limit.as_secs_f32());
        }
        tokio::time::sleep(TICK).await;
    }
}
