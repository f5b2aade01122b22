//! Quotas: how much a project may hold, and holds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One project's quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quota {
    pub project: String,
    /// By resource class (`VCPU`, `MEMORY_MB`, `DISK_GB`, `CUSTOM_…`), and `VMS` for the number of VMs.
    pub classes: BTreeMap<String, QuotaClass>,
}

/// Usage beside limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaClass {
    pub used: u64,
    /// Null: unlimited.
    pub limit: Option<u64>,
}

/// Body of `PUT /v1/quotas/{project}`: limits by class; a null lifts one, a class that is not named stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetQuota {
    pub limits: BTreeMap<String, Option<u64>>,
}
