//! Resource classes and amounts, in the words of OpenStack Placement: a node has an inventory per
//! class, a VM's claim holds an amount per class. All integers; ratios are in thousandths.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of thing a node has a countable amount of. Serialised as its Placement name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ResourceClass {
    /// Virtual CPUs.
    Vcpu,
    /// Memory in MiB (Placement calls the class `MEMORY_MB` and counts MiB too).
    MemoryMb,
    /// Disk of the VM directory in GiB.
    DiskGb,
    /// Anything else, by name.
    Custom(String),
}

impl ResourceClass {
    /// The class' name on the wire.
    pub fn name(&self) -> &str {
        match self {
            Self::Vcpu => "VCPU",
            Self::MemoryMb => "MEMORY_MB",
            Self::DiskGb => "DISK_GB",
            Self::Custom(name) => name,
        }
    }
}

impl From<String> for ResourceClass {
    fn from(name: String) -> Self {
        match name.as_str() {
            "VCPU" => Self::Vcpu,
            "MEMORY_MB" => Self::MemoryMb,
            "DISK_GB" => Self::DiskGb,
            _ => Self::Custom(name),
        }
    }
}

impl From<ResourceClass> for String {
    fn from(class: ResourceClass) -> Self {
        class.name().to_owned()
    }
}

impl fmt::Display for ResourceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An amount per resource class; an absent class is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resources(pub BTreeMap<ResourceClass, u64>);

impl Resources {
    /// The amount of `class`.
    pub fn get(&self, class: &ResourceClass) -> u64 {
        self.0.get(class).copied().unwrap_or(0)
    }

    /// Adds every amount of `other`.
    pub fn add(&mut self, other: &Resources) {
        for (class, amount) in &other.0 {
            let held = self.0.entry(class.clone()).or_default();
            *held = held.saturating_add(*amount);
        }
    }

    /// Takes every amount of `other` away; classes that reach zero disappear, so that two ways to the
    /// same amounts give the same bytes.
    ///
    /// # Panics
    /// When more is taken than is held: claims and their sum have come apart, which is corruption.
    pub fn sub(&mut self, other: &Resources) {
        for (class, amount) in &other.0 {
            let held = self.get(class);
            let left = held.checked_sub(*amount).unwrap_or_else(|| {
                panic!("corrupt state: {amount} of {class} released, only {held} claimed")
            });
            if left == 0 {
                self.0.remove(class);
            } else {
                self.0.insert(class.clone(), left);
            }
        }
    }
}

impl FromIterator<(ResourceClass, u64)> for Resources {
    fn from_iter<I: IntoIterator<Item = (ResourceClass, u64)>>(iter: I) -> Self {
        Self(iter.into_iter().filter(|(_, amount)| *amount > 0).collect())
    }
}

/// How much of one class a node offers (Placement's inventory).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// What the host has.
    pub total: u64,
    /// What is kept for the host itself; may exceed `total`, the capacity is then zero.
    pub reserved: u64,
    /// Overcommit in thousandths: 4000 is Nova's 4.0 for CPUs.
    pub allocation_ratio_thousandths: u64,
    /// Least, greatest and unit amount of one claim, as in Placement.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub min_unit: u64,
    #[serde(default = "unbounded", skip_serializing_if = "is_unbounded")]
    pub max_unit: u64,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub step_size: u64,
}

fn one() -> u64 {
    1
}
fn unbounded() -> u64 {
    u64::MAX
}
fn is_one(n: &u64) -> bool {
    *n == 1
}
fn is_unbounded(n: &u64) -> bool {
    *n == u64::MAX
}

/// A number of an inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InventoryField {
    Total,
    Reserved,
    AllocationRatio,
    MinUnit,
    MaxUnit,
    StepSize,
}

/// What an operator says instead of what a node reports; a field that is not given stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InventoryOverride {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_ratio_thousandths: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_unit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_size: Option<u64>,
    /// Of a change only: what is as reported again.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub taken_back: BTreeSet<InventoryField>,
}

impl InventoryOverride {
    /// Makes a change: what is given is set, what is taken back is said no longer, and the rest stays.
    pub fn change(&mut self, by: &Self) {
        let put = |field: &mut Option<u64>, given: Option<u64>, name| {
            if given.is_some() || by.taken_back.contains(&name) {
                *field = given;
            }
        };
        put(&mut self.total, by.total, InventoryField::Total);
        put(&mut self.reserved, by.reserved, InventoryField::Reserved);
        let ratio = by.allocation_ratio_thousandths;
        put(&mut self.allocation_ratio_thousandths, ratio, InventoryField::AllocationRatio);
        put(&mut self.min_unit, by.min_unit, InventoryField::MinUnit);
        put(&mut self.max_unit, by.max_unit, InventoryField::MaxUnit);
        put(&mut self.step_size, by.step_size, InventoryField::StepSize);
    }

    /// Puts what is given over `inventory`.
    pub fn over(&self, inventory: &mut Inventory) {
        let Self { total, reserved, allocation_ratio_thousandths, min_unit, max_unit, step_size, .. } = *self;
        let put = |field: &mut u64, value: Option<u64>| *field = value.unwrap_or(*field);
        put(&mut inventory.total, total);
        put(&mut inventory.reserved, reserved);
        put(&mut inventory.allocation_ratio_thousandths, allocation_ratio_thousandths);
        put(&mut inventory.min_unit, min_unit);
        put(&mut inventory.max_unit, max_unit);
        put(&mut inventory.step_size, step_size);
    }
}

impl Inventory {
    /// `total` of something, nothing reserved, no overcommit, any amount a claim.
    pub fn of(total: u64) -> Self {
        Self {
            total,
            reserved: 0,
            allocation_ratio_thousandths: 1000,
            min_unit: 1,
            max_unit: u64::MAX,
            step_size: 1,
        }
    }

    /// The same, of which one claim gets `most` at most, and never more than there is: what hosts report.
    pub fn bounded(total: u64, most: u64) -> Self {
        Self { max_unit: total.min(most).max(1), ..Self::of(total) }
    }

    /// Whether one claim may be of all there is, and not of more.
    pub fn is_bounded_by_total(&self) -> bool {
        self.max_unit == self.total.max(1) && self.max_unit < u64::MAX
    }

    /// Whether one claim may be of this size.
    pub fn takes(&self, amount: u64) -> bool {
        (self.min_unit..=self.max_unit).contains(&amount) && amount.is_multiple_of(self.step_size.max(1))
    }

    /// Whether one claim may be of any size up to the greatest.
    pub fn takes_any(&self) -> bool {
        (self.min_unit, self.step_size) == (1, 1)
    }

    /// `(total - reserved) × ratio`, rounded down: Placement's capacity.
    pub fn capacity(&self) -> u64 {
        let (usable, ratio) = (self.total.saturating_sub(self.reserved), self.allocation_ratio_thousandths);
        match usable.checked_mul(ratio) {
            Some(thousandths) => thousandths / 1000,
            // The same in wide integers, which are slow: this is asked of every host for every VM.
            None => u64::try_from(u128::from(usable) * u128::from(ratio) / 1000).unwrap_or(u64::MAX),
        }
    }
}
