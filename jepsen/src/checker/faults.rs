//! The faults happened: as many as asked for, each verified to have taken hold and to have been healed, and
//! the leader was among the victims. Otherwise the run proves nothing.

use super::Verdict;
use crate::history::Fault;

const NAME: &str = "faults";

/// Judges the faults of a run that was to have `rounds`.
pub fn check(rounds: u64, faults: &[Fault]) -> Verdict {
    let leaders = faults.iter().filter(|fault| fault.was_leader).count();
    let figures = format!("{} faults, {leaders} of them on the leader", faults.len());
    let vain = if faults.len() as u64 != rounds {
        Some(format!("{} of {rounds} faults happened", faults.len()))
    } else if let Some(fault) = faults.iter().find(|fault| !fault.took_hold) {
        Some(format!("a fault on {} did not take hold", fault.node))
    } else if let Some(fault) = faults.iter().find(|fault| fault.healed_ns.is_none()) {
        Some(format!("{} was not healed", fault.node))
    } else if leaders == 0 {
        Some("no leader was killed".to_owned())
    } else {
        None
    };
    match vain {
        Some(vain) => Verdict { figures, ..Verdict::unknown(NAME, vain) },
        None => Verdict::of(NAME, Vec::new(), figures),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::FaultKind;

    fn fault(was_leader: bool) -> Fault {
        Fault {
            took_hold: true,
            healed_ns: Some(2),
            ..Fault::new(FaultKind::Kill, "n1".into(), was_leader, 1)
        }
    }

    #[test]
    fn faults_that_happened_and_hit_a_leader_are_valid() {
        assert!(check(2, &[fault(true), fault(false)]).is_valid());
    }

    #[test]
    fn a_run_without_its_faults_is_rejected() {
        assert!(!check(2, &[fault(true)]).is_valid());
        assert!(!check(1, &[fault(false)]).is_valid());
        assert!(!check(1, &[Fault { took_hold: false, ..fault(true) }]).is_valid());
        assert!(!check(1, &[Fault { healed_ns: None, ..fault(true) }]).is_valid());
        assert!(!check(0, &[]).is_valid());
    }
}
