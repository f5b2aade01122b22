//! Events: what happened, in order of (revision, n). As a stream, each is one server-sent event whose id is
//! the revision, so that a client that comes back resumes by itself (`Last-Event-ID`).

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    pub revision: u64,
    /// Position among the events of this revision, from 0.
    pub n: u32,
    pub at: Timestamp,
    pub kind: EventKind,
    /// Id of the subject.
    pub id: String,
    /// Its name at the time.
    pub name: String,
    /// Past participle: `created`, `placed`, `deleted` …
    pub what: String,
    /// A sentence for people; may be empty.
    pub message: String,
    /// On whose behalf.
    pub actor: String,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    Cluster,
    Node,
    Flavor,
    Image,
    Vm,
    Aggregate,
    ServerGroup,
    Scheduler,
    Quota,
    Volume,
    Project,
}

impl EventKind {
    /// The kind as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Node => "node",
            Self::Flavor => "flavor",
            Self::Image => "image",
            Self::Vm => "vm",
            Self::Aggregate => "aggregate",
            Self::ServerGroup => "server-group",
            Self::Scheduler => "scheduler",
            Self::Quota => "quota",
            Self::Volume => "volume",
            Self::Project => "project",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
