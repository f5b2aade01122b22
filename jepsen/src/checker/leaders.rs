//! One leader a term: whoever leads says so with its first entry, so the event stream names every leadership. No
//! term has two leaders, and terms only rise.

use holm_api::{Event, EventKind};

use super::Verdict;

const NAME: &str = "leaders";

/// Judges one node's stream.
pub fn check(events: &[Event]) -> Verdict {
    let mut violations = Vec::new();
    let mut last: Option<(u64, &str)> = None;
    let mut count = 0;
    for event in events.iter().filter(|event| event.kind == EventKind::Node && event.what == "leading") {
        let Some(term) = event.message.strip_prefix("term ").and_then(|term| term.parse::<u64>().ok()) else {
            return Verdict::unknown(NAME, format!("no term in the event {:?}", event.message));
        };
        count += 1;
        match last {
            Some((before, node)) if before == term && node != event.id => violations.push(format!(
                "{} leads in term {term} from revision {} on, as did node {node}",
                event.name, event.revision
            )),
            Some((before, _)) if term < before => {
                violations.push(format!("term {term} of {} comes after term {before}", event.name));
            }
            _ => {}
        }
        last = Some((term, &event.id));
    }
    Verdict::of(NAME, violations, format!("{count} leaderships"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::event;
    use super::*;

    fn judged(leaders: &[(&str, &str)]) -> bool {
        let events = leaders
            .iter()
            .zip(1..)
            .map(|((node, term), at)| Event { kind: EventKind::Node, ..event(at, node, "leading", term) });
        check(&events.collect::<Vec<_>>()).is_valid()
    }

    #[test]
    fn rising_terms_are_valid_and_a_leader_may_say_it_twice() {
        assert!(judged(&[("1", "term 2"), ("2", "term 3"), ("2", "term 3"), ("1", "term 7")]));
        assert!(judged(&[]), "a stream that began later");
    }

    #[test]
    fn two_leaders_of_a_term_and_terms_that_fall_are_invalid() {
        assert!(!judged(&[("1", "term 2"), ("2", "term 2")]));
        assert!(!judged(&[("1", "term 3"), ("2", "term 2")]));
        assert!(!judged(&[("1", "for good")]));
    }
}
