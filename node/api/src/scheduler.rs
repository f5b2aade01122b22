//! The scheduler's policy: which filters are asked, and how much each weigher counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The policy in force, and what could be in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SchedulerPolicy {
    /// Enabled filters, in the order they are asked.
    pub filters: Vec<String>,
    /// Multiplier of each weigher; one that is not named is off. A negative one turns its preference round.
    pub weighers: BTreeMap<String, f64>,
    /// For the filter `NumInstances`.
    pub max_instances_per_host: u32,
    /// For the filter `IoOps`.
    pub max_io_ops_per_host: u32,
    /// For the filter `IsolatedHosts`: images that run on the isolated nodes only, as `PROJECT/NAME`.
    pub isolated_images: Vec<String>,
    /// The nodes they run on.
    pub isolated_nodes: Vec<String>,
    /// Whether these run nothing else.
    #[serde(default = "yes")]
    pub restrict_isolated_hosts_to_isolated_images: bool,
    /// Seconds after which a waiting VM gets a host kept for it; 0 keeps none.
    #[serde(default)]
    pub reserve_after_s: u32,
    /// Seconds after which a VM that fits nowhere goes to ERROR.
    #[serde(default = "ten_minutes")]
    pub build_timeout_s: u32,
    /// What becomes of a new failover VM with which the cluster could no longer lose any one node.
    #[serde(default)]
    pub n_plus_one: NPlusOne,
    /// Whether VMs that allow it are evicted for others of greater priority.
    #[serde(default)]
    pub preemption: bool,
    /// Every filter there is, and whether it is on by default.
    pub known_filters: BTreeMap<String, bool>,
    /// Every weigher there is, and its default multiplier.
    pub known_weighers: BTreeMap<String, f64>,
    /// Filters that cannot be switched off; those of `always_filters` among them.
    pub required_filters: Vec<String>,
    /// Filters that are asked last, whatever `filters` says, and are never listed there: they refuse only what a VM or
    /// the queue asks for.
    #[serde(default)]
    pub always_filters: Vec<String>,
    /// What the policy warns of in the cluster as it is; empty when all is well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Revision of its last change.
    pub revision: u64,
}

fn yes() -> bool {
    true
}

/// What it was before it could be set.
fn ten_minutes() -> u32 {
    600
}

/// Body of `PUT /v1/scheduler`: the whole policy. What is not given is as by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SetSchedulerPolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<String>>,
    /// At most three decimals count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighers: Option<BTreeMap<String, f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_instances_per_host: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_io_ops_per_host: Option<u32>,
    /// By id, `PROJECT/NAME`, or name in the request's project or `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolated_images: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolated_nodes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restrict_isolated_hosts_to_isolated_images: Option<bool>,
    /// At most `build_timeout_s`; 0 keeps no host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve_after_s: Option<u32>,
    /// 1 to 2419200, which is four weeks; 600 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_timeout_s: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_plus_one: Option<NPlusOne>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<bool>,
}

/// Whether the cluster is to hold its failover VMs with any one node gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NPlusOne {
    /// Nobody asks.
    Off,
    /// A VM that breaks it is created, with a warning.
    #[default]
    Warn,
    /// A VM that breaks it is refused.
    Refuse,
}
