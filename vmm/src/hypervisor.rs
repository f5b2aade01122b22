//! What the agent asks of a hypervisor driver. Everything is level-triggered: `observe` says what is
//! there, the other calls move it one step, and each may be repeated or cut short (by dropping its
//! future) without harm. A call that fails or times out leaves the VM *unknown*, never *absent*.

use std::path::PathBuf;

use futures::future::BoxFuture;
use holm_model::node::HypervisorFacts;
use holm_model::vm::StopMode;
use holm_model::{BootId, ClusterId, Epoch, VmId};
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

pub use crate::lease::{Lease, LeaseId};
pub use crate::pci::PciAddress;
pub use crate::volume::SharedVolume;

/// A driver of VMs on this host.
pub trait Hypervisor: Send + Sync + 'static {
    /// Which hypervisor this is, and whether it can work; asked at start and again from time to time.
    fn facts(&self) -> BoxFuture<'_, HypervisorFacts>;

    /// Every VM that has a directory here, whatever its state.
    fn vms(&self) -> BoxFuture<'_, Result<Vec<VmId>, Error>>;

    /// What is there of `vm`, right now.
    fn observe(&self, vm: VmId) -> BoxFuture<'_, Observation>;

    /// Begins run `spec.run` of epoch `spec.epoch`: directory, disks, VMM, boot. Answers once the VMM
    /// says that the guest runs. Refuses an epoch that was released here, and a VM that is running.
    fn start(&self, spec: StartSpec) -> BoxFuture<'_, Result<(), Error>>;

    /// Ends the run; answers when the VMM is gone. Graceful: power button, wait, then power off.
    fn stop(&self, vm: VmId, mode: StopMode) -> BoxFuture<'_, Result<(), Error>>;

    /// From here on the run ends when `lease` does (FENCING.md, rule 12). Answers once that is in force: an
    /// observation says so, also to the next daemon. Refused where the lease does not live, and by a shim
    /// that is older than leases.
    fn arm(&self, vm: VmId, lease: Lease) -> BoxFuture<'_, Result<(), Error>>;

    /// The run needs no lease any more; one whose lease has ended by now is ended all the same.
    fn disarm(&self, vm: VmId) -> BoxFuture<'_, Result<(), Error>>;

    /// Ends a run whose lease has ended and which its shim has not ended, so shim and VMM are killed. Nothing
    /// is asked of the shim.
    fn enforce(&self, vm: VmId) -> BoxFuture<'_, Result<(), Error>>;

    /// Writes down, durably, whether `epoch` may run under a lease only: who reads an old replica after a power
    /// cut must not start it without one.
    fn bind(&self, vm: VmId, epoch: Epoch, bound: bool) -> BoxFuture<'_, Result<(), Error>>;

    /// The start order the latest run was given, so that a host can be shut down in order without the cluster.
    fn start_order(&self, vm: VmId) -> BoxFuture<'_, i32>;

    /// Marks `epoch` released, durably (fsync of file and directory): it is never started again here.
    /// Refused while a VMM runs.
    fn release(&self, vm: VmId, epoch: Epoch) -> BoxFuture<'_, Result<(), Error>>;

    /// Deletes the disks of a released VM; the released mark stays.
    fn delete_disks(&self, vm: VmId) -> BoxFuture<'_, Result<(), Error>>;

    /// Removes the VM's directory, mark included. Refused while a VMM runs or the epoch is not released.
    fn forget(&self, vm: VmId) -> BoxFuture<'_, Result<(), Error>>;

    /// The guest's serial console: bytes both ways.
    fn console(&self, vm: VmId) -> BoxFuture<'_, Result<UnixStream, Error>>;

    /// The end of the console log, at most `max_bytes` of it; empty when nothing was printed.
    fn log(&self, vm: VmId, max_bytes: u64) -> BoxFuture<'_, Result<Vec<u8>, Error>>;

    /// Names VMs whose state changed without our doing. May name too many; the period of the agent
    /// covers one that is missed. Taken once.
    fn changes(&self) -> mpsc::UnboundedReceiver<VmId>;
}

/// What a run is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartSpec {
    pub vm: VmId,
    pub name: String,
    pub epoch: Epoch,
    pub run: u64,
    pub vcpus: u32,
    pub memory_mib: u64,
    pub disk_gib: u64,
    pub boot: Boot,
    pub cmdline: Option<String>,
    /// The lease this run depends on; it starts only while that lives, and ends with it (FENCING.md, rules 11
    /// and 16). `None` for a VM that nobody else may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// Host CPUs that single vCPUs are bound to; the others run anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_affinity: Vec<VcpuAffinity>,
    /// Host devices handed to the guest through VFIO.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pci_devices: Vec<PciAddress>,
    /// Shared volumes, in the order in which the guest sees them after its root disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<SharedVolume>,
    /// The cluster that asks; a directory it did not make is none of its business.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// Kept for the shutdown of the host: the highest goes first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start_order: i32,
    /// The same run once more: it was ended for a shutdown of its host, which did not come.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

fn is_zero(n: &i32) -> bool {
    *n == 0
}

/// Where a vCPU may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuAffinity {
    /// Counts from 0.
    pub vcpu: u32,
    /// Numbers of host CPUs, as Linux counts them.
    pub host_cpus: Vec<u32>,
}

/// What a guest boots from. Paths are of verified files in the image store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Boot {
    /// A kernel, and a blank root disk when `disk_gib` > 0.
    Kernel { kernel: PathBuf },
    /// A disk copied from `source` once per epoch and grown to `disk_gib`; started by `kernel`, or by the
    /// configured firmware.
    Disk { source: PathBuf, format: DiskFormat, kernel: Option<PathBuf> },
}

/// Format of a disk image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskFormat {
    Raw,
    Qcow2,
}

/// What was found of one VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// No directory.
    Absent,
    /// It could not be told; act on nothing.
    Unknown {
        reason: String,
    },
    Known(Instance),
}

/// A VM that has a directory here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    pub epoch: Epoch,
    /// The epoch was marked released.
    pub released: bool,
    /// The cluster that placed it; none where the directory is from before that was written down.
    pub cluster: Option<ClusterId>,
    /// The epoch may run under a lease only, see [`Hypervisor::bind`].
    pub bound: bool,
    /// The latest run begun in this epoch; 0 before the first.
    pub run: u64,
    /// The boot of the host in which that run began.
    pub boot_id: Option<BootId>,
    /// The lease the run ends with; none for a run that needs none, and for one that is over.
    pub armed: Option<LeaseId>,
    /// Whether [`Hypervisor::arm`] can work on the run as it is: not where its shim is older than leases.
    /// Whatever is started next can be armed.
    pub can_arm: bool,
    pub state: InstanceState,
}

/// State of the latest run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// None was begun.
    Prepared,
    Running,
    Paused,
    /// A VMM process is there and does not answer; it may be busy. Never restarted for that.
    Unresponsive {
        reason: String,
    },
    Ended(ExitCause),
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitCause {
    /// Holm ended it.
    Requested,
    /// The guest powered itself off.
    GuestOff,
    /// The host went down under it.
    HostLost,
    /// Its lease ended, or was replaced by another. Nothing is wrong with it: the run may begin again under a
    /// lease that lives.
    LeaseEnded,
    /// Anything else: an exit nobody asked for is a failure, whatever its code.
    Failed { reason: String },
}

/// Why a step did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This host cannot run this VM as things are; another might. The text is for the operator.
    #[error("{0}")]
    BuildFailed(String),
    /// Something that the VM needs is not there now, and may be in a moment; longer, and another host may do better.
    #[error("not yet: {0}")]
    NotYet(String),
    /// The call would break a rule (released epoch, VMM still running …).
    #[error("refused: {0}")]
    Refused(String),
    /// The lease of the start does not live; the run was not begun, and may be with another lease.
    #[error("no lease to run under: {0}")]
    NoLease(String),
    /// There is no such VM here.
    #[error("no such VM on this host")]
    NotHere,
    /// It is not known whether the step took effect: observe again.
    #[error("outcome unknown: {0}")]
    Unknown(String),
    /// A file operation failed.
    #[error("{what} {}", path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}
