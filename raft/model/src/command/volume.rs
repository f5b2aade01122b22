//! Commands about shared volumes.

use serde::{Deserialize, Serialize};

use crate::id::{Revision, VolumeId};
use crate::volume::VolumeLock;

/// A new volume: the record only, the storage is there already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateVolume {
    pub id: VolumeId,
    pub name: String,
    pub path: String,
    #[serde(default)]
    pub read_only: bool,
    #[serde(default)]
    pub lock: VolumeLock,
}

/// Removes the record, never the data; refused while a VM has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteVolume {
    pub id: VolumeId,
    #[serde(default)]
    pub expected: Option<Revision>,
}
