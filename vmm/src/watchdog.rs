//! Feeds the host's hardware watchdog for as long as no VMM outlives its lease, so that the host is reset
//! where nothing else could end one: shim stopped by hand, process stuck in the kernel (FENCING.md, rule 18).
//! A process of its own, never the daemon, which may be what hangs.
//!
//! It trusts nobody's word: the records of the run directory say which VMMs depend on which lease, the kernel
//! says which of them live, the lease file says which lease does. Everything it reads lies in memory.

mod device;
mod look;
mod record;

use std::path::PathBuf;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

pub use self::device::{Device, Error};
pub use self::look::{Sight, look};
pub use self::record::Record;
use crate::shim::setup;

/// What it watches and feeds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The watchdog of the host, `/dev/watchdog` mostly.
    pub device: PathBuf,
    /// The daemon's run directory.
    pub run_dir: PathBuf,
    /// The device resets the host this long after it was fed last. Less than the margin of the leases, so
    /// that the host is gone before its VMs run elsewhere.
    pub timeout_s: u32,
}

/// How often it looks and feeds.
const PERIOD: Duration = Duration::from_secs(1);

/// Feeds until it is told to end; `tell` is given a line for the operator whenever something changed. Must be
/// called while this process has one thread.
///
/// # Errors
/// When the device or the signals cannot be had.
pub fn run(settings: &Settings, mut tell: impl FnMut(&str)) -> Result<(), Error> {
    let mut ends = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        ends.add(signal);
    }
    ends.thread_block().map_err(|e| Error::Signals(e.into()))?;
    let signals = SignalFd::with_flags(&ends, SfdFlags::SFD_CLOEXEC).map_err(|e| Error::Signals(e.into()))?;
    let mut device = Device::open(&settings.device, settings.timeout_s)?;
    setup::protect_from_oom_killer();
    setup::lock_memory();
    tell(&format!("{} is fed: {}", settings.device.display(), device.describe()));
    let own = Record::own(&settings.device, settings.timeout_s, device.resets()).map_err(Error::Process)?;
    let mut before = Sight::default();
    loop {
        let sight = look(&settings.run_dir);
        if sight.is_safe() {
            device.feed()?;
        }
        own.leave(&settings.run_dir);
        if sight.outlived != before.outlived {
            tell(&sight.describe());
        }
        before = sight;
        let mut fds = [PollFd::new(std::os::fd::AsFd::as_fd(&signals), PollFlags::POLLIN)];
        let period = PollTimeout::try_from(PERIOD).unwrap_or(PollTimeout::MAX);
        if poll(&mut fds, period) == Ok(1) {
            return end(device, settings, tell);
        }
    }
}

/// Lets the device rest only where nothing is left to be guarded.
fn end(device: Device, settings: &Settings, mut tell: impl FnMut(&str)) -> Result<(), Error> {
    let sight = look(&settings.run_dir);
    if sight.bound == 0 && sight.is_safe() {
        device.close_in_order()?;
        tell("no VM depends on a lease: the watchdog is off");
    } else {
        tell(&format!(
            "{} VMs depend on a lease: the watchdog stays on, and resets this host in {} s unless somebody feeds it again",
            sight.bound, settings.timeout_s
        ));
    }
    Ok(())
}
