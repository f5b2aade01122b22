//! A watchdog device of Linux (`Documentation/watchdog/watchdog-api.rst`): any byte feeds it, `V` before the
//! close turns it off. A plain file or a FIFO works too, and resets nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// `WDIOC_SETTIMEOUT`, `_IOWR('W', 6, int)`.
const SET_TIMEOUT: libc::c_ulong = 0xc004_5706;

/// Why the watchdog cannot be fed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} is in use: it has one user at a time; systemd is it when RuntimeWatchdogSec is set", path.display())]
    InUse { path: PathBuf },
    #[error("{} cannot be used", path.display())]
    Device {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} cannot wait for {timeout_s} s, it waits for {actual_s} s: choose another timeout", path.display())]
    Timeout { path: PathBuf, timeout_s: u32, actual_s: i32 },
    #[error("this process cannot be told from others")]
    Process(#[source] io::Error),
    #[error("signals cannot be caught")]
    Signals(#[source] io::Error),
}

/// The device. Closed without [`close_in_order`](Self::close_in_order) it goes on counting.
#[derive(Debug)]
pub struct Device {
    path: PathBuf,
    file: File,
    /// The time it was set to; none for what is no watchdog.
    timeout_s: Option<u32>,
}

impl Device {
    /// Opens it, which starts it, and sets its time.
    pub fn open(path: &Path, timeout_s: u32) -> Result<Self, Error> {
        let failed = |source: io::Error| match source.raw_os_error() {
            Some(libc::EBUSY) => Error::InUse { path: path.to_owned() },
            _ => Error::Device { path: path.to_owned(), source },
        };
        // Not made where it is missing; never waited for.
        let file =
            OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
        let mut device = Self { path: path.to_owned(), file, timeout_s: None };
        let mut actual_s = i32::try_from(timeout_s).unwrap_or(i32::MAX);
        // SAFETY: the descriptor is open; the call reads and writes one int behind a valid pointer.
        let set = unsafe { libc::ioctl(device.file.as_raw_fd(), SET_TIMEOUT, &raw mut actual_s) };
        if set == 0 {
            if i64::from(actual_s) != i64::from(timeout_s) {
                device.close_in_order()?;
                return Err(Error::Timeout { path: path.to_owned(), timeout_s, actual_s });
            }
            device.timeout_s = Some(timeout_s);
            return Ok(device);
        }
        match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::ENOTTY) => Ok(device),
            source => {
                device.close_in_order()?;
                Err(Error::Device { path: path.to_owned(), source })
            }
        }
    }

    /// What it is, for the operator.
    pub fn describe(&self) -> String {
        match self.timeout_s {
            Some(seconds) => format!("it resets this host {seconds} s after it was fed last"),
            None => "it is no watchdog device, and resets nothing".to_owned(),
        }
    }

    /// Whether it is one that resets the host.
    pub fn resets(&self) -> bool {
        self.timeout_s.is_some()
    }

    /// Another period of life.
    pub fn feed(&mut self) -> Result<(), Error> {
        self.write(b"\n")
    }

    /// Turns it off.
    pub fn close_in_order(mut self) -> Result<(), Error> {
        self.write(b"V")
    }

    fn write(&mut self, byte: &[u8]) -> Result<(), Error> {
        match self.file.write_all(byte) {
            // A FIFO that nobody empties.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            written => written.map_err(|source| Error::Device { path: self.path.clone(), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_file_is_fed_and_closed_in_order() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("watchdog");
        assert!(matches!(Device::open(&path, 4), Err(Error::Device { .. })), "it is not made");
        std::fs::write(&path, "").expect("file");
        let mut device = Device::open(&path, 4).expect("opened");
        assert!(device.describe().contains("resets nothing"));
        device.feed().expect("fed");
        device.feed().expect("fed");
        device.close_in_order().expect("closed");
        assert_eq!(std::fs::read(&path).expect("file"), b"\n\nV");
    }

    /// The kernel's software watchdog, only where it is told not to reset the host.
    #[test]
    fn a_software_watchdog_is_set_fed_and_turned_off() {
        let harmless = std::fs::read_to_string("/sys/module/softdog/parameters/soft_noboot");
        if harmless.map_or(true, |value| value.trim() != "1") {
            // Past libtest's capture, which hides what passing tests print.
            drop(std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("SKIPPED: software watchdog: softdog is not loaded with soft_noboot=1\n"),
            ));
            return;
        }
        let mut device = Device::open(Path::new("/dev/watchdog"), 4).expect("opened");
        assert_eq!(device.describe(), "it resets this host 4 s after it was fed last");
        device.feed().expect("fed");
        assert!(matches!(Device::open(Path::new("/dev/watchdog"), 4), Err(Error::InUse { .. })));
        device.close_in_order().expect("turned off");
    }
}
