//! The weighers there are, one a file. The replicated policy says how much each counts.

mod build_failure;
mod cpu;
mod disk;
mod health;
mod hypervisor_version;
mod image_locality;
mod io_ops;
mod load;
mod num_instances;
mod pci;
mod prefer_no_schedule;
mod ram;
mod soft_affinity;
mod soft_anti_affinity;

use holm_model::group::GroupPolicy;

pub use self::build_failure::BuildFailure;
pub use self::cpu::Cpu;
pub use self::disk::Disk;
pub use self::health::Health;
pub use self::hypervisor_version::HypervisorVersion;
pub use self::image_locality::ImageLocality;
pub use self::io_ops::IoOps;
pub use self::load::Load;
pub use self::num_instances::NumInstances;
pub use self::pci::Pci;
pub use self::prefer_no_schedule::PreferNoSchedule;
pub use self::ram::Ram;
pub use self::soft_affinity::SoftAffinity;
pub use self::soft_anti_affinity::SoftAntiAffinity;
use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// All of them, in the order of `holm_model::policy::WEIGHERS`.
pub fn all() -> Vec<Box<dyn Weigher>> {
    vec![
        Box::new(Ram),
        Box::new(Cpu),
        Box::new(Disk),
        Box::new(IoOps),
        Box::new(NumInstances),
        Box::new(SoftAffinity),
        Box::new(SoftAntiAffinity),
        Box::new(BuildFailure),
        Box::new(ImageLocality),
        Box::new(HypervisorVersion),
        Box::new(Load),
        Box::new(PreferNoSchedule),
        Box::new(Health),
        Box::new(Pci),
    ]
}

/// Members of the VM's group on `host`, if the group has this policy.
fn members(request: &Request<'_>, host: &Host<'_>, policy: GroupPolicy) -> i64 {
    let group = request.group.as_ref().filter(|group| group.record.policy == policy);
    group.map_or(0, |group| i64::from(group.members(host.id()).here))
}
