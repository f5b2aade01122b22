//! VMs that were stopped, started and rebooted while faults happened end where they were last asked to be: on.
//! None is wedged on the way, in ERROR, or gone. With real guests, each has exactly one process in the end.

use holm_api::Vm;

use super::Verdict;
use crate::workload::power::{Asked, is_on};

const NAME: &str = "power";

/// Judges what the records say in the end.
pub fn check(asked: &[Asked], vms: &[Vm]) -> Verdict {
    let shown = asked.iter().map(|of| {
        let vm = vms.iter().find(|vm| vm.name == of.name);
        let shown = vm.map(|vm| {
            let fault = vm.fault.as_ref().map(|fault| fault.message.clone()).unwrap_or_default();
            (is_on(vm), format!("{} {:?} {fault}", vm.status, vm.task_state))
        });
        (of.clone(), shown)
    });
    judge(&shown.collect::<Vec<_>>())
}

/// Whether it is where it was asked to be, and how it is shown.
type Shown = Option<(bool, String)>;

fn judge(vms: &[(Asked, Shown)]) -> Verdict {
    let sum = |of: fn(&Asked) -> u64| vms.iter().map(|(asked, _)| of(asked)).sum::<u64>();
    let (stops, starts, reboots) =
        (sum(|asked| asked.stops), sum(|asked| asked.starts), sum(|asked| asked.reboots));
    let figures = format!("{stops} stops, {starts} starts, {reboots} reboots of {} VMs", vms.len());
    let unasked = vms.iter().find(|(asked, _)| !asked.on);
    let vain = match unasked {
        Some((asked, _)) => Some(format!("{} could not be asked to be on", asked.name)),
        None => (stops == 0 || starts == 0).then(|| "nothing was stopped, or nothing started".to_owned()),
    };
    let violations = vms.iter().filter(|(asked, _)| asked.on).filter_map(|(asked, shown)| match shown {
        None => Some(format!("{} is gone", asked.name)),
        Some((true, _)) => None,
        Some((false, shown)) => Some(format!("{} was asked to be on and is {shown}", asked.name)),
    });
    let violations: Vec<_> = violations.collect();
    match vain {
        Some(vain) if violations.is_empty() => Verdict { figures, ..Verdict::unknown(NAME, vain) },
        _ => Verdict::of(NAME, violations, figures),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Finding;
    use super::*;

    fn asked(on: bool) -> Asked {
        Asked { name: "power-0".into(), stops: 2, starts: 1, reboots: 0, on }
    }

    fn shown(on: bool) -> Shown {
        Some((on, "status".to_owned()))
    }

    #[test]
    fn a_vm_that_was_asked_to_be_on_and_is_is_valid() {
        assert!(judge(&[(asked(true), shown(true))]).is_valid());
    }

    #[test]
    fn one_that_is_wedged_off_or_gone_is_invalid() {
        for bad in [shown(false), None] {
            assert!(matches!(judge(&[(asked(true), bad)]).finding, Finding::Invalid(_)));
        }
    }

    #[test]
    fn without_requests_nothing_is_known() {
        assert!(!judge(&[]).is_valid());
        assert!(!judge(&[(asked(false), shown(true))]).is_valid());
        let idle = Asked { stops: 0, ..asked(true) };
        assert!(!judge(&[(idle, shown(true))]).is_valid());
    }
}
