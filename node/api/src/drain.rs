//! Emptying a node: the request, and how far it is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::node::DrainPinned;
use crate::time::Timestamp;
use crate::vm::{Availability, HostReason};

/// Body of `POST /v1/nodes/{node}/drain`; may be empty when no pinned VM runs there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DrainNode {
    /// Seconds a guest gets to shut down before it is powered off: 1 to 3600, 60 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u32>,
    /// What becomes of pinned VMs. Must be given when some run there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<DrainPinned>,
}

/// Body of `PUT /v1/nodes/{node}/maintenance`; `timeout_s` and `pinned` as for a drain, which it includes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BeginMaintenance {
    /// Why, for other operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Seconds a guest gets to shut down before it is powered off: 1 to 3600, 60 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u32>,
    /// What becomes of pinned VMs. Must be given when some run there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<DrainPinned>,
}

/// What is left on a node that is being drained, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainProgress {
    /// Name of the node.
    pub node: String,
    pub node_id: u64,
    /// When the node is not up, nothing is moved or stopped there until it is.
    pub node_up: bool,
    /// Null in a dry run.
    pub since: Option<Timestamp>,
    /// It is drained for announced work on the machine, whose end opens the node again.
    #[serde(default)]
    pub maintenance: bool,
    pub stop_timeout_s: u32,
    pub pinned: DrainPinned,
    /// Nothing of what was to leave runs there any more.
    pub done: bool,
    /// VMs that may still run there, in the order in which they go.
    pub left: Vec<LeftVm>,
    /// Nothing was changed: this is what would be.
    pub dry_run: bool,
    pub revision: u64,
}

/// A VM that may still run on a node that is being drained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftVm {
    pub name: String,
    pub id: Uuid,
    pub availability: Availability,
    pub next: NextForVm,
    /// With `moves`: a host that has room for it now.
    pub to: Option<String>,
    /// With `stuck`: why hosts refuse it, 32 of them at most, those of every filter among them.
    pub refusals: Vec<HostReason>,
}

/// What becomes of a VM on a node that is being drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NextForVm {
    /// It is being moved, or deleted.
    Leaving,
    /// It leaves when those before it have.
    Moves,
    /// It fits on no other host, and runs on until one has room.
    Stuck,
    /// It is being shut down.
    Stopping,
    /// It is shut down when those before it are off.
    Stops,
    /// It is pinned, and runs on.
    Kept,
}

impl NextForVm {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leaving => "leaving",
            Self::Moves => "moves",
            Self::Stuck => "stuck",
            Self::Stopping => "stopping",
            Self::Stops => "stops",
            Self::Kept => "kept",
        }
    }
}
