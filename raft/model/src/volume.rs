//! A shared volume: storage outside the cluster that VMs write to, known by a path that is the same on every
//! node. Holm keeps only its name and how it is guarded; the data is never touched.
//!
//! What makes failover with one safe is a lock that the storage itself enforces (FENCING.md, rule 22). Advisory
//! locks on files fence nothing and are not offered.

use serde::{Deserialize, Serialize};

use crate::id::{Revision, Timestamp, VolumeId};

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    pub id: VolumeId,
    pub project: String,
    /// Unique within the project.
    pub name: String,
    /// Absolute, and the same storage on every node: `/dev/disk/by-id/…`.
    pub path: String,
    /// Nobody writes to it, so any number of VMs may have it, and it needs no lock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    #[serde(default)]
    pub lock: VolumeLock,
    pub created_at: Timestamp,
    pub revision: Revision,
}

impl Volume {
    /// Whether a node that lost the VM and does not know it yet could still write to it.
    pub fn is_unguarded(&self) -> bool {
        !self.read_only && self.lock == VolumeLock::None
    }
}

/// What keeps the writer of an earlier epoch out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeLock {
    /// Nothing: for VMs that never fail over.
    #[default]
    None,
    /// A persistent reservation of a SCSI disk, held under the claim's epoch.
    PersistentReservation,
}
