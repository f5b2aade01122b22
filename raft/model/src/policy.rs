//! The scheduler's policy, replicated so that every future leader decides alike: which filters are asked,
//! in which order, and how much each weigher counts. The names are fixed here; `holm-sched` has the code
//! behind each, and a test there that none is missing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::Revision;

/// All filters, in their default order; the second says whether it is on by default (Nova's defaults, and
/// Capacity, AvailabilityZone, NodeSelector, Taints). Those of [`REQUIRED`] cannot be switched off: apply
/// asks them too.
pub const FILTERS: &[(&str, bool)] = &[
    ("ComputeStatus", true),
    ("RequestedNode", true),
    ("Excluded", true),
    ("AvailabilityZone", true),
    ("NodeSelector", true),
    ("Taints", true),
    ("ComputeCapabilities", true),
    ("Traits", true),
    ("ImageProperties", true),
    ("ServerGroup", true),
    ("SameHost", true),
    ("DifferentHost", true),
    ("Capacity", true),
    ("AggregateExtraSpecs", false),
    ("AggregateImagePropertiesIsolation", false),
    ("AggregateMultiTenancyIsolation", false),
    ("IsolatedHosts", false),
    ("NumInstances", false),
    ("IoOps", false),
    ("SimpleCidrAffinity", false),
];

/// Filters whose rules apply checks again.
pub const REQUIRED: &[&str] = &["ComputeStatus", "RequestedNode", "Excluded", "ServerGroup", "Capacity"];

/// Filters that are always asked and never listed: they refuse only what a VM or the queue asks for. Apply checks the
/// first two again.
pub const ALWAYS: &[&str] = &["DedicatedCpu", "PciDevices", "Reserved"];

/// All weighers with their default multiplier in thousandths (Nova's defaults; 0 is off).
pub const WEIGHERS: &[(&str, i64)] = &[
    ("Ram", 1000),
    ("Cpu", 1000),
    ("Disk", 1000),
    ("IoOps", -1000),
    ("NumInstances", 0),
    ("SoftAffinity", 1000),
    ("SoftAntiAffinity", 1000),
    ("BuildFailure", 1_000_000_000),
    ("ImageLocality", 1000),
    ("HypervisorVersion", 1000),
    ("Load", 0),
    ("PreferNoSchedule", 1000),
    ("Health", 1_000_000),
    ("Pci", 1000),
];

/// Weighers that came after the first policies were written: where a policy does not name one, it counts with its
/// default, and 0 is off. So a policy of before keeps its meaning and its bytes, and every version's default is the
/// same.
pub const LATER_WEIGHERS: &[&str] = &["Health", "Pci"];

/// Greatest multiplier, either sign, in thousandths.
pub const MULTIPLIER_MAX: i64 = 1_000_000_000;

/// How long a VM waits before a host is kept for it, unless the policy says otherwise.
pub const RESERVE_AFTER_S: u32 = 30;

/// What becomes of a new failover VM with which the cluster could no longer lose any one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NPlusOne {
    /// Nobody asks.
    Off,
    /// It is created, and the answer says what would no longer fit.
    #[default]
    Warn,
    Refuse,
}

impl NPlusOne {
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

fn reserve_after_s() -> u32 {
    RESERVE_AFTER_S
}

fn is_usual(seconds: &u32) -> bool {
    *seconds == RESERVE_AFTER_S
}

/// The policy in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerPolicy {
    /// Enabled filters, in the order they are asked.
    pub filters: Vec<String>,
    /// Multipliers in thousandths; a weigher that is not named is off, unless it is one of [`LATER_WEIGHERS`].
    pub weighers: BTreeMap<String, i64>,
    /// Numbers some filters take: `max_instances_per_host`, `max_io_ops_per_host`.
    pub max_instances_per_host: u32,
    pub max_io_ops_per_host: u32,
    /// `IsolatedHosts`: images that run on the isolated nodes, and nothing else there.
    pub isolated_images: Vec<String>,
    pub isolated_nodes: Vec<String>,
    /// A VM that has waited this long in vain gets a host kept for it, in seconds; 0 keeps none.
    #[serde(default = "reserve_after_s", skip_serializing_if = "is_usual")]
    pub reserve_after_s: u32,
    #[serde(default, skip_serializing_if = "NPlusOne::is_usual")]
    pub n_plus_one: NPlusOne,
    /// Whether VMs that allow it are evicted for others of greater priority.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preemption: bool,
    /// When it was set; the revision of the cluster's birth for the default.
    pub revision: Revision,
}

impl SchedulerPolicy {
    /// How much a weigher counts, in thousandths.
    pub fn multiplier(&self, weigher: &str) -> i64 {
        let later = || LATER_WEIGHERS.iter().find(|name| **name == weigher).and(default_multiplier(weigher));
        self.weighers.get(weigher).copied().or_else(later).unwrap_or(0)
    }
}

fn default_multiplier(weigher: &str) -> Option<i64> {
    WEIGHERS.iter().find(|(name, _)| *name == weigher).map(|(_, multiplier)| *multiplier)
}

impl Default for SchedulerPolicy {
    fn default() -> Self {
        let on = FILTERS.iter().filter(|(_, on)| *on);
        let first = |name: &&str| !LATER_WEIGHERS.contains(name);
        let weigh = WEIGHERS.iter().filter(|(name, multiplier)| *multiplier != 0 && first(name));
        Self {
            filters: on.map(|(name, _)| (*name).to_owned()).collect(),
            weighers: weigh.map(|(name, multiplier)| ((*name).to_owned(), *multiplier)).collect(),
            max_instances_per_host: 50,
            max_io_ops_per_host: 8,
            isolated_images: Vec::new(),
            isolated_nodes: Vec::new(),
            reserve_after_s: RESERVE_AFTER_S,
            n_plus_one: NPlusOne::default(),
            preemption: false,
            revision: Revision::default(),
        }
    }
}
