//! Ends the process. A node whose core, storage or apply has failed must not answer as if it had not:
//! the service manager starts it again, and running VMs are not touched.

/// Exit code after a failure that only a restart or an operator can mend (`EX_SOFTWARE`).
pub const EXIT_CODE: i32 = 70;

/// Says why, and exits with [`EXIT_CODE`].
pub(crate) fn stop_process(reason: &str) -> ! {
    tracing::error!(reason, "holm cannot go on");
    eprintln!("holm: cannot go on: {reason}");
    std::process::exit(EXIT_CODE)
}

/// The words of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned())
}
