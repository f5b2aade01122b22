//! Conditions of a node: what is wrong with it, since when, in words. Most are what the node says of itself; two
//! only the cluster can see, and apply keeps those. Every condition makes a node less liked; those of [`REFUSING`]
//! keep new VMs away. None of them ever touches a VM that runs.

use crate::id::Timestamp;
use crate::node::{Condition, Node};
use crate::resources::{Inventory, ResourceClass};

/// No room, or no inodes, where the log or the VMs' disks lie.
pub const DISK_FULL: &str = "DiskFull";
/// A file system that takes no writes.
pub const DISK_READ_ONLY: &str = "DiskReadOnly";
/// A disk that does not answer.
pub const DISK_HUNG: &str = "DiskHung";
/// Real VMs are to run here, and the hypervisor cannot.
pub const KVM_MISSING: &str = "KvmMissing";
/// Two hosts report as this node. Seen by the cluster.
pub const IDENTITY_CLONED: &str = "IdentityCloned";
/// It holds more than it has. Seen by the cluster.
pub const INVENTORY_BELOW_ALLOCATIONS: &str = "InventoryBelowAllocations";

/// With these nothing new is placed: a VM would fail there, or take what others already hold.
pub const REFUSING: &[&str] =
    &[DISK_FULL, DISK_READ_ONLY, DISK_HUNG, KVM_MISSING, IDENTITY_CLONED, INVENTORY_BELOW_ALLOCATIONS];

/// An identity that only one host used for this long is no longer called cloned.
pub const CLONE_QUIET_MS: u64 = 60_000;

impl Node {
    /// What it says is wrong with it, then what the cluster sees.
    pub fn conditions(&self) -> impl Iterator<Item = (&str, &Condition)> {
        let reported = self.report.iter().flat_map(|report| &report.conditions);
        reported.chain(&self.findings).map(|(name, condition)| (name.as_str(), condition))
    }

    /// Whether nothing is known to be wrong with it.
    pub fn is_well(&self) -> bool {
        self.findings.is_empty() && self.report.as_ref().is_none_or(|report| report.conditions.is_empty())
    }

    /// The first condition that keeps new VMs away.
    pub fn refusing_condition(&self) -> Option<(&str, &Condition)> {
        if self.is_well() {
            return None;
        }
        self.conditions().find(|(name, _)| REFUSING.contains(name))
    }

    /// Follows its inventory and what is claimed of it: a part that failed may leave less than is held.
    pub(crate) fn compare_inventory(&mut self, at: Timestamp) {
        let short = self.allocated.0.iter().filter_map(|(class, held)| {
            // What is kept back of a disk may grow beside what is claimed, as images do.
            let capacity = |inventory: &Inventory| match class {
                ResourceClass::DiskGb => Inventory { reserved: 0, ..inventory.clone() }.capacity(),
                _ => inventory.capacity(),
            };
            let capacity = self.inventory.get(class).map_or(0, capacity);
            (*held > capacity).then(|| format!("{class}: {held} claimed, {capacity} there"))
        });
        let short = short.collect::<Vec<_>>().join("; ");
        if short.is_empty() {
            self.findings.remove(INVENTORY_BELOW_ALLOCATIONS);
            return;
        }
        let message =
            format!("{short}; what runs goes on, nothing new is placed; repair the host, or move VMs away");
        self.find(INVENTORY_BELOW_ALLOCATIONS, at, message);
    }

    /// A host whose turn is over reports again: it is not the one that reported last.
    pub(crate) fn identity_cloned(&mut self, at: Timestamp) {
        let message = "two hosts report as this node, and each would take the other's lease and VMs; switch off \
                       the one that was copied, and reboot the other if it is refused";
        self.find(IDENTITY_CLONED, at, message.to_owned());
        self.cloned_at = Some(at);
    }

    /// Only one host has reported for a while.
    pub(crate) fn identity_clear(&mut self, at: Timestamp) {
        if self.cloned_at.is_some_and(|cloned_at| at.since_ms(cloned_at) >= CLONE_QUIET_MS) {
            self.findings.remove(IDENTITY_CLONED);
            self.cloned_at = None;
        }
    }

    fn find(&mut self, name: &str, at: Timestamp, message: String) {
        let since = self.findings.get(name).map_or(at, |before| before.since);
        self.findings.insert(name.to_owned(), Condition { since, message });
    }
}
