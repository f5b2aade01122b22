//! How a VM is kept running: what may be said of it, and how far it is on its way back from trouble.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

/// Whether the VM may be restarted on another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Availability {
    /// It waits for its node.
    #[default]
    Pinned,
    /// It stops with its node's lease, and comes back elsewhere once that node is fenced.
    Failover,
}

impl Availability {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Failover => "failover",
        }
    }
}

/// What may become of a local disk when the VM is moved or its host is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskLoss {
    /// It holds something: the VM stays with it.
    #[default]
    Refuse,
    /// It is written anew from the image; what the guest wrote is lost.
    Recreate,
}

impl DiskLoss {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Recreate => "recreate",
        }
    }
}

/// Whether a run that ended by itself is followed by another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    /// Also when the guest powered itself off.
    Always,
    /// When the VMM failed.
    OnFailure,
    #[default]
    Never,
}

impl RestartPolicy {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::OnFailure => "on-failure",
            Self::Never => "never",
        }
    }
}

/// Body of `PATCH /v1/vms/{vm}`: how it is kept running. What is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PatchVm {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability: Option<Availability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_loss: Option<DiskLoss>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<RestartPolicy>,
    /// At most a million either way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_order: Option<i32>,
    /// At most 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_delay_s: Option<u32>,
    /// A VM that was created for one node is bound to it no longer, and may run on any.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub any_node: bool,
}

/// Body of `POST /v1/vms/{vm}/evacuate`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvacuateVm {
    /// You state that the machine it was on is switched off, and reaches the cluster when it is switched on again: cut
    /// off, it would start what it had after `autostart_wait`. If not, the VM may run twice.
    pub confirm_node_off: bool,
}

/// How far a VM is on its way back from trouble.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Recovery {
    /// When the present `task_state` began.
    pub task_since: Option<Timestamp>,
    /// That step takes longer than it should; its node goes on trying.
    pub overdue: bool,
    /// When it is given up on, or said to be late. Null while its node is down: that one cannot be late.
    pub task_deadline: Option<Timestamp>,
    /// It lost its node and waits for another, without a time-out.
    pub failing_over: bool,
    /// Why it lost its node, until it runs again: a fence, a drain, a move, an eviction for another VM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_host: Option<String>,
    /// Restarts by its policy within ten minutes; after five the policy gives up.
    pub restarts: u32,
    /// While it is `restarting`: when the next run begins.
    pub next_restart_at: Option<Timestamp>,
    /// It is to leave its node.
    pub leaving: Option<Leaving>,
    /// Name of the node whose drain stopped it; it is started again when that is over.
    pub stopped_for_drain_of: Option<String>,
    /// Name of the node it was moved to while it was off: there it goes when it is started, if it still fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
}

/// Why a VM leaves its node: it is stopped there and placed anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Leaving {
    pub since: Timestamp,
    pub reason: String,
}
