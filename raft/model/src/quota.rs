//! Quotas: how much a project may hold, per resource class, and how many VMs. Checked at apply, so that
//! it is never exceeded at any log index.

use crate::resources::ResourceClass;
use crate::resources::Resources;
use crate::vm::VmSpec;

/// The class that counts VMs.
pub const VMS: &str = "VMS";

/// What a VM of this spec counts against its project's quota: its flavor's sizes (not the VMM's overhead)
/// and one VM.
pub fn usage_of(spec: &VmSpec) -> Resources {
    let mut usage = crate::feasible::requested(spec);
    usage.0.insert(ResourceClass::Custom(VMS.to_owned()), 1);
    usage
}
