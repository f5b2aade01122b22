//! The scheduler's policy, replicated so that every future leader decides alike: which filters are asked,
//! in which order, and how much each weigher counts. The names are fixed here; `holm-sched` has the code
//! behind each, and a test there that none is missing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::decimal::Decimal;
use crate::id::{ImageId, NodeId, Revision};
use crate::reply::Reason;

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

/// Aggregate metadata that goes before the policy's numbers of these names on its hosts.
pub const MAX_INSTANCES: &str = "max_instances_per_host";
pub const MAX_IO_OPS: &str = "max_io_ops_per_host";

/// How long a VM waits before a host is kept for it, unless the policy says otherwise.
pub const RESERVE_AFTER_S: u32 = 30;

/// How long a VM that fits nowhere waits before it goes to ERROR, unless the policy says otherwise.
pub const BUILD_TIMEOUT_S: u32 = 600;
/// The longest: four weeks.
pub const BUILD_TIMEOUT_S_MAX: u32 = 28 * 24 * 3600;

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

fn build_timeout_s() -> u32 {
    BUILD_TIMEOUT_S
}

fn is_usual_timeout(seconds: &u32) -> bool {
    *seconds == BUILD_TIMEOUT_S
}

fn yes() -> bool {
    true
}

fn is_yes(restrict: &bool) -> bool {
    *restrict
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
    /// `IsolatedHosts`: images that run on the isolated nodes, by id. One that is no id is a name of the time when
    /// names were stored, and means every image of that name.
    pub isolated_images: Vec<String>,
    /// Likewise the nodes.
    pub isolated_nodes: Vec<String>,
    /// Nova's setting of that name: nothing but isolated images runs on isolated nodes.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub restrict_isolated_hosts_to_isolated_images: bool,
    /// A VM that has waited this long in vain gets a host kept for it, in seconds; 0 keeps none.
    #[serde(default = "reserve_after_s", skip_serializing_if = "is_usual")]
    pub reserve_after_s: u32,
    /// A VM that fits nowhere waits this long, in seconds, before it goes to ERROR.
    #[serde(default = "build_timeout_s", skip_serializing_if = "is_usual_timeout")]
    pub build_timeout_s: u32,
    #[serde(default, skip_serializing_if = "NPlusOne::is_usual")]
    pub n_plus_one: NPlusOne,
    /// Whether VMs that allow it are evicted for others of greater priority.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preemption: bool,
    /// When it was set; the revision of the cluster's birth for the default.
    pub revision: Revision,
}

impl SchedulerPolicy {
    /// `build_timeout_s` in milliseconds.
    pub fn build_timeout_ms(&self) -> u64 {
        u64::from(self.build_timeout_s) * 1000
    }

    /// How much a weigher counts, in thousandths.
    pub fn multiplier(&self, weigher: &str) -> i64 {
        let later = || LATER_WEIGHERS.iter().find(|name| **name == weigher).and(default_multiplier(weigher));
        self.weighers.get(weigher).copied().or_else(later).unwrap_or(0)
    }

    /// Whether `isolated_images` has the image.
    pub fn isolates_image(&self, id: ImageId, name: &str) -> bool {
        self.isolated_images.iter().any(|item| item.parse().map_or(item == name, |item: ImageId| item == id))
    }

    /// Whether `isolated_nodes` has the node.
    pub fn isolates_node(&self, id: NodeId, name: &str) -> bool {
        self.isolated_nodes.iter().any(|item| item.parse().map_or(item == name, |item: NodeId| item == id))
    }
}

/// The aggregate metadata that overrides a weigher's multiplier: `soft_anti_affinity_weight_multiplier`.
pub fn multiplier_key(weigher: &str) -> String {
    let mut key = String::with_capacity(weigher.len() + 24);
    for letter in weigher.chars() {
        if letter.is_ascii_uppercase() && !key.is_empty() {
            key.push('_');
        }
        key.push(letter.to_ascii_lowercase());
    }
    key + "_weight_multiplier"
}

/// Metadata of an aggregate that stands for a number of the policy on its hosts must be one the policy would take.
///
/// # Errors
/// [`Reason::Invalid`] naming the key.
pub fn check_override(key: &str, value: &str) -> Result<(), Reason> {
    let wrong = |message: String| {
        Err(Reason::Invalid { field: format!("metadata.{key}"), message: format!("is {value:?}, {message}") })
    };
    let value = value.trim();
    if [MAX_INSTANCES, MAX_IO_OPS].contains(&key) {
        return match value.parse::<u32>() {
            Ok(1..) => Ok(()),
            _ => wrong(format!("must be a whole number from 1 to {}", u32::MAX)),
        };
    }
    let is_multiplier =
        key.ends_with("_weight_multiplier") && WEIGHERS.iter().any(|(name, _)| multiplier_key(name) == key);
    let exact = || Decimal::parse(value).and_then(|value| value.exact_thousandths(MULTIPLIER_MAX));
    if is_multiplier && exact().is_none() {
        let most = MULTIPLIER_MAX / 1000;
        return wrong(format!("must be a number within ±{most}, such as 1.5, with at most three decimals"));
    }
    Ok(())
}

/// Metadata that would steer something in Nova, or looks as if it did, and steers nothing here.
///
/// # Errors
/// [`Reason::Invalid`] naming the key and what does it.
pub fn check_effect(key: &str) -> Result<(), Reason> {
    let wrong = |message: String| Err(Reason::Invalid { field: format!("metadata.{key}"), message });
    let ratios = [("cpu", "VCPU"), ("ram", "MEMORY_MB"), ("disk", "DISK_GB")];
    let ratio = ratios.iter().find(|(of, _)| key.strip_suffix("_allocation_ratio") == Some(of));
    if let Some((_, class)) = ratio {
        return wrong(format!(
            "has no effect; `holm aggregate set-inventory AGGREGATE {class} --ratio RATIO` overcommits"
        ));
    }
    let mut keys = WEIGHERS.iter().map(|(name, _)| multiplier_key(name));
    if key.ends_with("_weight_multiplier") && !keys.any(|known| known == key) {
        let known: Vec<String> = WEIGHERS.iter().map(|(name, _)| multiplier_key(name)).collect();
        return wrong(format!("is no weigher's; there are {}", known.join(", ")));
    }
    Ok(())
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
            restrict_isolated_hosts_to_isolated_images: true,
            reserve_after_s: RESERVE_AFTER_S,
            build_timeout_s: BUILD_TIMEOUT_S,
            n_plus_one: NPlusOne::default(),
            preemption: false,
            revision: Revision::default(),
        }
    }
}
