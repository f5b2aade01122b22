//! Shared volumes: storage outside the cluster, by a path that is the same on every node.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::time::Timestamp;

/// One shared volume. Holm never touches its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    pub id: Uuid,
    pub name: String,
    pub project: String,
    /// The same storage on every node.
    pub path: String,
    pub read_only: bool,
    pub lock: VolumeLock,
    /// Names of the VMs that have it.
    pub vms: Vec<String>,
    pub created_at: Timestamp,
    pub revision: u64,
}

/// What keeps a writer out that lost the volume and does not know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeLock {
    /// Nothing. VMs with such a volume cannot have `availability: failover`, unless it is read-only.
    #[default]
    None,
    /// A SCSI-3 persistent reservation of the disk itself, held under the VM's epoch: the storage refuses
    /// the writes of every earlier one.
    PersistentReservation,
}

impl VolumeLock {
    /// The lock as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::PersistentReservation => "persistent-reservation",
        }
    }
}

impl fmt::Display for VolumeLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Body of `POST /v1/volumes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateVolume {
    /// 1 to 63 of letters, digits, `-`, `_`, `.`; unique within the project.
    pub name: String,
    /// Absolute, and the same storage on every node, such as `/dev/disk/by-id/wwn-0x5000c500a0b1c2d3`.
    pub path: String,
    /// Nobody writes to it: any number of VMs may have it, and it needs no lock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    #[serde(default)]
    pub lock: VolumeLock,
}
