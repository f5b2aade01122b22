//! How a user steers where one VM goes, in the words of Kubernetes (selectors, taints, tolerations) and
//! Nova (zones, groups, same and different host), and what an operator puts on nodes to be matched.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::id::{GroupId, VmId};

/// Everything a VM says about its host. All of it is optional, and all that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scheduling {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_selector: Vec<Requirement>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupId>,
    /// Not with any of these.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub different_host: BTreeSet<VmId>,
    /// With one of these.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub same_host: BTreeSet<VmId>,
    /// On a node whose API address lies in this network: `10.1.0.0/16`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near: Option<String>,
    /// Greater goes first in the queue.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Whether it may be evicted, its disks lost, for a VM of greater priority.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub preemptible: bool,
}

fn is_zero(n: &i32) -> bool {
    *n == 0
}

impl Scheduling {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One demand on a node's labels (Kubernetes' `NodeSelectorRequirement`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    /// For `In` and `NotIn` at least one, for `Gt` and `Lt` one integer, otherwise none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

/// What keeps VMs off a node unless they tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Taint {
    pub key: String,
    #[serde(default)]
    pub value: String,
    pub effect: Effect,
}

/// How strongly a taint keeps VMs off. What already runs stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Effect {
    NoSchedule,
    /// Only a preference.
    PreferNoSchedule,
}

/// A taint that a VM puts up with (Kubernetes' `Toleration`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toleration {
    /// None tolerates every key; then there is no value either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// None tolerates every value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// None tolerates every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

impl Requirement {
    /// Whether a node with these labels meets it. As in Kubernetes, `NotIn` and `DoesNotExist` hold where
    /// the label is missing, and `Gt` and `Lt` fail where it is no integer.
    pub fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let label = labels.get(&self.key);
        let number = |text: &String| text.parse::<i64>().ok();
        let compare = |holds: fn(i64, i64) -> bool| {
            let wanted = self.values.first().and_then(number);
            label.and_then(number).zip(wanted).is_some_and(|(label, wanted)| holds(label, wanted))
        };
        match self.operator {
            Operator::In => label.is_some_and(|label| self.values.contains(label)),
            Operator::NotIn => label.is_none_or(|label| !self.values.contains(label)),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::Gt => compare(|label, wanted| label > wanted),
            Operator::Lt => compare(|label, wanted| label < wanted),
        }
    }
}

impl Toleration {
    /// Whether it puts up with `taint`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

/// Address and prefix length of `10.1.0.0/16` or `fd00::/8`.
pub fn parse_network(text: &str) -> Option<(std::net::IpAddr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let address: std::net::IpAddr = address.parse().ok()?;
    let prefix: u8 = prefix.parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    (prefix <= bits).then_some((address, prefix))
}
