//! The quota is never exceeded, at no revision: replayed from the event stream, a project never has more VMs than
//! its limit; and the limit was reached and refused somebody, or nothing was proved.

use holm_api::{Event, EventKind};

use super::Verdict;

const NAME: &str = "quota";

/// Judges one node's stream, from before the first VM on; `refused` creates were told of the quota.
pub fn check(limit: u64, refused: u64, events: &[Event]) -> Verdict {
    let (mut there, mut most) = (0_u64, 0);
    let mut violations = Vec::new();
    for event in events.iter().filter(|event| event.kind == EventKind::Vm) {
        match event.what.as_str() {
            "created" => there += 1,
            "deleted" => there = there.saturating_sub(1),
            _ => continue,
        }
        most = most.max(there);
        if there > limit && event.what == "created" {
            violations.push(format!(
                "{there} VMs at revision {} ({}), the quota is {limit}",
                event.revision, event.name
            ));
        }
    }
    let figures = format!("at most {most} VMs of {limit}, {refused} creates refused");
    if violations.is_empty() && (most < limit || refused == 0) {
        return Verdict { figures, ..Verdict::unknown(NAME, "the quota was never reached") };
    }
    Verdict::of(NAME, violations, figures)
}

#[cfg(test)]
mod tests {
    use super::super::Finding;
    use super::super::testing::event;
    use super::*;

    #[test]
    fn up_to_the_limit_is_valid_and_a_deleted_vm_makes_room() {
        let events =
            [event(1, "a", "created", ""), event(2, "b", "created", ""), event(3, "a", "deleted", "")];
        let events = [&events[..], &[event(4, "c", "created", "")]].concat();
        assert!(check(2, 1, &events).is_valid());
    }

    #[test]
    fn one_more_is_invalid_even_for_a_moment() {
        let events =
            [event(1, "a", "created", ""), event(2, "b", "created", ""), event(3, "a", "deleted", "")];
        assert!(matches!(check(1, 1, &events).finding, Finding::Invalid(_)));
    }

    #[test]
    fn a_limit_that_was_never_met_proves_nothing() {
        let events = [event(1, "a", "created", "")];
        assert!(matches!(check(2, 1, &events).finding, Finding::Unknown(_)));
        assert!(matches!(check(1, 0, &events).finding, Finding::Unknown(_)));
    }
}
