//! What is looked at, as plain data: what judging needs and no more.

use std::path::PathBuf;

/// One look at the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Where the log lies, and where VM disks do if that is another file system.
    pub disks: Vec<Disk>,
    /// What there is of the disk of the VMs; none while it cannot be told.
    pub amount: Option<DiskAmount>,
    /// Why no snapshot of the log can be written, if so.
    pub snapshot_problem: Option<String>,
    pub memory: Option<Memory>,
    /// Why real VMs cannot run here although they are to.
    pub hypervisor_problem: Option<String>,
    pub clock: Clock,
    /// Where the addresses of this node are.
    pub links: Vec<Link>,
    pub vmms: Vmms,
    pub binaries: Binaries,
    /// The watchdog that is fed on this host, if one is.
    pub watchdog: Option<Watchdog>,
    /// Parts that the configuration offers VMs and the host does not have.
    pub missing_parts: Vec<String>,
}

/// A file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    pub dir: PathBuf,
    /// What `statvfs` says, or its error.
    pub space: Result<Space, String>,
    /// A write has not ended for long.
    pub is_hung: bool,
}

/// The disk of the VMs, as an inventory counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskAmount {
    pub total_bytes: u64,
    /// Of it, what images take.
    pub images_bytes: u64,
}

/// Room of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// 0 where the file system makes them as it needs them.
    pub inodes: u64,
    pub free_inodes: u64,
    pub is_read_only: bool,
}

/// Memory of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub total_mib: u64,
    /// What could be had without swapping.
    pub available_mib: u64,
    /// Share of the last ten seconds in which nobody got on for lack of memory, in thousandths; none where the
    /// kernel does not tell.
    pub stalled_thousandths: Option<u64>,
    /// The kernel killed a process for lack of memory lately.
    pub killed_lately: bool,
}

/// The wall clock, held against the one that counts from boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Milliseconds by which it moved at once, if it did lately.
    pub jump_ms: Option<i64>,
    /// It tells a time at which this program did not exist.
    pub is_before_build: bool,
}

/// The interface of one of this node's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub address: std::net::IpAddr,
    pub state: LinkState,
}

/// How an interface is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    Running,
    /// Nobody switched it on.
    Down {
        interface: String,
    },
    /// It is on, and there is nobody at the other end of the cable.
    NoCarrier {
        interface: String,
    },
    /// No interface has the address.
    Missing,
}

/// VMs of this node, by their own processes' word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vmms {
    pub vms: usize,
    /// Those that cannot be told at present.
    pub silent: usize,
}

/// A watchdog, held against the leases it guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchdog {
    /// The host is reset so long after the last look that found all well.
    pub timeout_s: u32,
    /// False for a device that is none.
    pub resets: bool,
    /// Waited beyond a lease before its VMs start elsewhere.
    pub margin_ms: u64,
}

impl Watchdog {
    /// The host is gone before its VMs run elsewhere.
    pub fn is_in_time(&self) -> bool {
        u64::from(self.timeout_s) * 1000 < self.margin_ms
    }
}

/// Programs that were replaced on disk while they run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Binaries {
    pub holmd: bool,
    /// VMs run with an earlier Cloud Hypervisor than the one on disk.
    pub vmm: bool,
}
