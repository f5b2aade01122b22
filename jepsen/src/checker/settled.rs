//! An acknowledged create ends: after healing every VM is ACTIVE, or ERROR with a reason, and nothing is
//! under way. A record that hangs is a violation, however politely it answers.

use holm_api::{Vm, VmStatus};

use super::Verdict;

const NAME: &str = "settled";

/// Judges the VMs that are left, as one node shows them after the time they had to settle.
pub fn check(vms: &[Vm]) -> Verdict {
    let judged = vms.iter().map(|vm| (vm.name.as_str(), Standing::of(vm))).collect::<Vec<_>>();
    judge(&judged)
}

/// What matters of one VM.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Standing {
    status: VmStatus,
    busy: bool,
    reason: Option<String>,
}

impl Standing {
    fn of(vm: &Vm) -> Self {
        let reason = vm.fault.as_ref().map(|fault| fault.message.clone());
        Self { status: vm.status, busy: vm.task_state.is_some(), reason }
    }
}

/// Whether there is nothing left to wait for.
pub fn is_settled(vms: &[Vm]) -> bool {
    vms.iter().all(|vm| vm.task_state.is_none() && !matches!(vm.status, VmStatus::Build | VmStatus::Deleting))
}

fn judge(vms: &[(&str, Standing)]) -> Verdict {
    let mut violations = Vec::new();
    let mut errors = 0;
    for (name, vm) in vms {
        match (vm.status, vm.busy, vm.reason.as_deref()) {
            (VmStatus::Active, false, _) => {}
            (VmStatus::Error, false, Some(reason)) if !reason.is_empty() => errors += 1,
            (VmStatus::Error, false, _) => violations.push(format!("{name} is in ERROR without a reason")),
            (status, _, reason) => {
                violations.push(format!("{name} ended in {status} ({})", reason.unwrap_or("no reason")));
            }
        }
    }
    Verdict::of(NAME, violations, format!("{} ACTIVE, {errors} ERROR", vms.len() - errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(status: VmStatus, busy: bool, reason: Option<&str>) -> Standing {
        Standing { status, busy, reason: reason.map(str::to_owned) }
    }

    #[test]
    fn active_and_error_with_a_reason_are_ends() {
        let vms =
            [("a", vm(VmStatus::Active, false, None)), ("b", vm(VmStatus::Error, false, Some("no disk")))];
        assert!(judge(&vms).is_valid());
    }

    #[test]
    fn a_vm_that_hangs_and_an_error_without_a_reason_are_invalid() {
        for bad in [
            vm(VmStatus::Build, true, Some("waiting")),
            vm(VmStatus::Active, true, None),
            vm(VmStatus::Deleting, true, None),
            vm(VmStatus::Shutoff, false, None),
            vm(VmStatus::Error, false, None),
            vm(VmStatus::Error, false, Some("")),
        ] {
            assert!(!judge(&[("a", bad.clone())]).is_valid(), "{bad:?}");
        }
    }
}
