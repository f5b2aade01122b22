//! Ends the process. A node whose core, storage or apply has failed must not answer as if it had not:
//! the service manager starts it again, and running VMs are not touched.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use crate::simulated;

/// Exit code after a failure that only a restart or an operator can mend (`EX_SOFTWARE`).
pub const EXIT_CODE: i32 = 70;

/// Says why, and exits with [`EXIT_CODE`].
pub(crate) fn stop_process(reason: &str) -> ! {
    simulated::stop(reason);
    tracing::error!(reason, "holm cannot go on");
    eprintln!("holm: cannot go on: {reason}");
    std::process::exit(EXIT_CODE)
}

/// `task`, which the node cannot do without: if it panics, or ends while nobody stops the node, the process ends
/// too. A runtime would only keep the panic for whoever joins the task, and the node would live on without it.
pub async fn essential(name: &str, is_stopping: impl Fn() -> bool, task: impl Future<Output = ()>) {
    match AssertUnwindSafe(task).catch_unwind().await {
        Err(panic) => stop_process(&format!("the task `{name}` panicked: {}", panic_message(&*panic))),
        Ok(()) if is_stopping() => {}
        Ok(()) => stop_process(&format!("the task `{name}` ended")),
    }
}

/// The words of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned())
}
