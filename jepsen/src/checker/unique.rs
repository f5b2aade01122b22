//! An id is given once: no two things of a kind ever have the same one, not even one after the other. (Addresses need no
//! rule here: Holm gives none; a node's own are refused by `join` while another has them.)

use std::collections::BTreeMap;

use holm_api::{Event, EventKind};

use super::Verdict;

const NAME: &str = "unique";

/// Judges what one node's stream says came to be.
pub fn check(events: &[Event]) -> Verdict {
    let mut born = BTreeMap::<(String, &str), &Event>::new();
    let mut violations = Vec::new();
    let begins = |event: &&Event| match event.kind {
        EventKind::Node => event.what == "added",
        _ => event.what == "created",
    };
    for event in events.iter().filter(begins) {
        let kind = format!("{:?}", event.kind).to_lowercase();
        if let Some(earlier) = born.insert((kind.clone(), &event.id), event) {
            violations.push(format!(
                "{kind} {} is {} from revision {} on, and {} from revision {} on",
                event.id, earlier.name, earlier.revision, event.name, event.revision
            ));
        }
    }
    if born.is_empty() {
        return Verdict::unknown(NAME, "nothing is known to have come to be");
    }
    Verdict::of(NAME, violations, format!("{} ids", born.len()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::event;
    use super::*;

    #[test]
    fn one_id_each_is_valid_whatever_happens_to_them_later() {
        let events = [
            event(3, "a", "created", ""),
            event(4, "b", "created", ""),
            event(5, "a", "deleted", ""),
            Event { kind: EventKind::Node, ..event(6, "a", "added", "") },
        ];
        assert!(check(&events).is_valid());
    }

    #[test]
    fn an_id_that_is_given_again_is_invalid_even_after_its_owner_is_gone() {
        let again = Event { name: "other".to_owned(), ..event(9, "a", "created", "") };
        assert!(!check(&[event(3, "a", "created", ""), event(5, "a", "deleted", ""), again]).is_valid());
        let node = |revision| Event { kind: EventKind::Node, ..event(revision, "4", "added", "") };
        assert!(!check(&[node(3), node(9)]).is_valid());
    }
}
