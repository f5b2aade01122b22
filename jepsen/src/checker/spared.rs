//! Faults of daemons, networks and power spare VMs: none of them makes a VM impossible, so none may leave one
//! in ERROR. Whatever failed meanwhile was to be tried again.

use holm_api::{Vm, VmStatus};

use super::Verdict;

const NAME: &str = "spared";

/// Judges the VMs that are left after healing.
pub fn check(vms: &[Vm]) -> Verdict {
    let standing = vms.iter().map(|vm| {
        let reason = vm.fault.as_ref().map(|fault| fault.message.clone()).unwrap_or_default();
        (vm.name.clone(), vm.status, reason)
    });
    judge(standing.collect())
}

fn judge(vms: Vec<(String, VmStatus, String)>) -> Verdict {
    let count = vms.len();
    let errors = vms.into_iter().filter(|(_, status, _)| *status == VmStatus::Error);
    let violations = errors.map(|(name, _, reason)| format!("{name} is in ERROR: {reason}")).collect();
    Verdict::of(NAME, violations, format!("{count} VMs looked at"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vm_in_error_is_invalid_whatever_the_reason() {
        let vm = |status| vec![("a".to_owned(), status, "no image".to_owned())];
        assert!(judge(vm(VmStatus::Active)).is_valid());
        assert!(!judge(vm(VmStatus::Error)).is_valid());
    }
}
