//! An image: what a VM boots from. The record is replicated; the bytes lie in the nodes' image stores
//! under their SHA-256, and `holders` says which nodes have them whole and verified.

use std::collections::BTreeMap;

use imbl::OrdSet;
use serde::{Deserialize, Serialize};

use crate::id::{ImageId, NodeId, Revision, Timestamp};
use crate::project::DEFAULT;

/// One image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub id: ImageId,
    pub project: String,
    /// Unique within the project.
    pub name: String,
    pub kind: ImageKind,
    pub size_bytes: u64,
    /// Lower-case hex, 64 characters.
    pub sha256: String,
    /// What the image needs of a host (`hw_architecture`, `trait:…`, or an operator's own keys).
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Nodes that hold the bytes, verified.
    pub holders: OrdSet<NodeId>,
    pub created_at: Timestamp,
    pub revision: Revision,
}

impl Image {
    /// Whether VMs of a project may boot from it: those of `default` are everybody's.
    pub fn is_usable_by(&self, project: &str) -> bool {
        self.project == project || self.project == DEFAULT
    }
}

/// How a VMM uses the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageKind {
    /// A kernel: ELF with a PVH note, or bzImage.
    Kernel,
    /// A raw disk, copied for each VM.
    RawDisk,
    /// A qcow2 disk without a backing file, copied for each VM.
    Qcow2Disk,
}
