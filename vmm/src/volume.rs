//! Shared volumes of a VM: storage that other nodes reach too. Before a VMM may open one it is looked at, given
//! to the VMM's user and, where the cluster says so, locked in the storage itself under the claim's epoch
//! (FENCING.md, rule 22). The shim does all that under the lock of the VM's directory, so that of two epochs on
//! one host the older one never comes second.
//!
//! The lock outlives the run: it is what a later epoch, on whatever node, finds and takes over. It is given up
//! only when the VM is deleted. Given up with the run, or with the claim, it would leave a moment in which a host
//! that froze an epoch or two ago could thaw and write.

mod device;
mod reservation;
mod scsi;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use holm_model::{Epoch, VolumeId};
use serde::{Deserialize, Serialize};

use self::device::Device;
pub use self::reservation::{Key, Reservation, Unit};
use crate::cloud_hypervisor::settings::VmmUser;

/// How long the storage may take over the locks of a VM. The daemon waits for a shim a little longer.
const PATIENCE: Duration = Duration::from_secs(15);

/// One volume, as a run is given it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedVolume {
    /// Part of the key of its lock.
    pub id: VolumeId,
    pub name: String,
    /// The same storage on every node.
    pub path: PathBuf,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// It is held by a persistent reservation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved: bool,
}

impl SharedVolume {
    /// Whether the host's page cache must stay out of the way: what it holds of a disk is old when another node
    /// has written to it meanwhile.
    pub fn is_direct(&self) -> bool {
        self.path.starts_with("/dev")
    }
}

/// Why a volume cannot be had here now.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no {} on this node: connect the storage, or correct the volume's path", path.display())]
    Missing { path: PathBuf },
    #[error("{} cannot be opened", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} is neither a disk nor a file", path.display())]
    NoStorage { path: PathBuf },
    #[error("{} is in use on this node: it is mounted, or one path of a multipath device", path.display())]
    Busy { path: PathBuf },
    #[error(
        "Cloud Hypervisor runs as user {uid} here and may not open {}: give that user the right to it",
        path.display()
    )]
    Forbidden { path: PathBuf, uid: u32 },
    #[error("{} cannot be given to Cloud Hypervisor's user", path.display())]
    Give {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} is {what}: `lock: persistent-reservation` needs a whole SCSI disk", path.display())]
    NotReservable { path: PathBuf, what: &'static str },
    #[error("the lock of {} cannot be had", path.display())]
    Lock {
        path: PathBuf,
        #[source]
        source: reservation::Error,
    },
}

impl Error {
    /// Whether it may be well in a moment, with nothing done by anybody: storage that is being connected, or changes
    /// controllers, or a disk that somebody looks at.
    fn is_passing(&self) -> bool {
        match self {
            // After a boot, storage on a network is connected beside the daemon.
            Self::Missing { .. } | Self::Busy { .. } => true,
            Self::Open { source, .. } => source.kind() != std::io::ErrorKind::PermissionDenied,
            Self::Lock { source, .. } => source.is_passing(),
            _ => false,
        }
    }
}

/// A volume cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub why: String,
    /// To be tried again on this node for a while; else the node is none for the VM.
    pub passing: bool,
}

/// Makes every volume ready for a VMM of `user` that runs under `epoch`. Blocks while the storage takes its time, which
/// is bounded, or opens.
///
/// # Errors
/// The first volume that cannot be had; of those before it, locks that were taken stay: the epoch owns them.
pub fn prepare(volumes: &[SharedVolume], epoch: Epoch, user: Option<VmmUser>) -> Result<(), Refused> {
    let until = Instant::now() + PATIENCE;
    volumes.iter().try_for_each(|volume| {
        prepare_one(volume, epoch, user, until)
            .map_err(|error| Refused { why: told(&volume.name, &error), passing: error.is_passing() })
    })
}

fn prepare_one(
    volume: &SharedVolume,
    epoch: Epoch,
    user: Option<VmmUser>,
    until: Instant,
) -> Result<(), Error> {
    let device = Device::open(&volume.path, volume.read_only)?;
    if volume.reserved {
        let unit = device.reservable(until)?;
        let taken = reservation::take(&unit, Key::of(volume.id, epoch));
        taken.map_err(|source| Error::Lock { path: volume.path.clone(), source })?;
    }
    match user {
        Some(user) => device.give(user, volume.read_only),
        None => Ok(()),
    }
}

/// Gives up the locks that `epoch` holds, if it still does. What cannot be given up stays, for the next epoch to
/// take over.
pub fn release(volumes: &[SharedVolume], epoch: Epoch) {
    let until = Instant::now() + PATIENCE;
    for volume in volumes.iter().filter(|volume| volume.reserved) {
        if let Ok(device) = Device::open(&volume.path, volume.read_only)
            && let Ok(unit) = device.reservable(until)
        {
            let _ = unit.unregister(Key::of(volume.id, epoch));
        }
    }
}

/// An error with its causes, in one line that names the volume.
fn told(name: &str, error: &dyn std::error::Error) -> String {
    let mut text = format!("volume `{name}`: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
