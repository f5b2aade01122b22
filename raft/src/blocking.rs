//! Work that would hold up a thread of the runtime is done elsewhere; in a simulation, which has one thread, at once.

use std::io;

use crate::simulated;

/// What `work` answers.
///
/// # Errors
/// When it panicked, or the runtime is ending.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    if simulated::is_on() {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}
