//! Commands about images.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{ImageId, NodeId};
use crate::image::ImageKind;

/// The bytes are whole on `holder`: make the image known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateImage {
    pub id: ImageId,
    pub name: String,
    pub kind: ImageKind,
    pub size_bytes: u64,
    /// Lower-case hex.
    pub sha256: String,
    pub holder: NodeId,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// A node holds an image's verified bytes now, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportImage {
    pub node: NodeId,
    pub image: ImageId,
    pub held: bool,
}
