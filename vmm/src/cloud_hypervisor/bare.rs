//! Cloud Hypervisor by itself, without shim, API or marks: the yardstick for what Holm adds.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time from the start of the process to the first byte the guest prints. Blocks until then, and ends the
/// process before it returns.
pub fn first_byte(binary: &Path, kernel: &Path, memory_mib: u64) -> io::Result<Duration> {
    let begun = Instant::now();
    let mut child = Command::new(binary)
        .arg("--kernel")
        .arg(kernel)
        .args(["--cpus", "boot=1", "--memory", &format!("size={memory_mib}M,thp=off")])
        .args(["--serial", "tty", "--console", "off"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let read = stdout.read_exact(&mut [0]);
    let elapsed = begun.elapsed();
    child.kill()?;
    child.wait()?;
    read.map(|()| elapsed)
}
