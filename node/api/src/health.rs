//! Whether a daemon works, for load balancers and operators.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `GET /health`: status 200 when ready, 503 when not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// The daemon answers.
    pub live: bool,
    /// It can serve linearizable reads and writes now.
    pub ready: bool,
    /// Why it is not ready.
    pub reason: Option<String>,
    pub node: String,
    pub node_id: u64,
    /// Name of the leader it knows of.
    pub leader: Option<String>,
    pub version: String,
    pub uptime_s: u64,
    pub revision: u64,
}
