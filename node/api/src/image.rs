//! Images: what VMs boot from. The bytes are uploaded as the body of `POST /v1/images`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::node::NodeRef;
use crate::time::Timestamp;

/// One image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Image {
    pub id: Uuid,
    pub name: String,
    pub project: String,
    pub kind: ImageKind,
    pub size_bytes: u64,
    /// Lower-case hex.
    pub sha256: String,
    /// What it needs of a host: `hw_architecture`, `trait:…`, or an operator's own keys.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Nodes that hold the bytes, verified.
    pub holders: Vec<NodeRef>,
    pub created_at: Timestamp,
    pub revision: u64,
}

/// How a VMM uses the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ImageKind {
    /// ELF with a PVH note, or bzImage.
    Kernel,
    /// A raw disk, copied for each VM.
    RawDisk,
    /// A qcow2 disk without a backing file, copied for each VM.
    Qcow2Disk,
}

impl ImageKind {
    /// Every kind there is.
    pub const ALL: [Self; 3] = [Self::Kernel, Self::RawDisk, Self::Qcow2Disk];

    /// The kind as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::RawDisk => "raw-disk",
            Self::Qcow2Disk => "qcow2-disk",
        }
    }
}

impl fmt::Display for ImageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
