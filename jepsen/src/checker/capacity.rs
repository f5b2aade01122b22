//! Allocations never exceed capacity, at no revision: replayed from the event stream, the VMs placed on a node
//! never want more than it has; and some VM had to wait, or nothing was proved.

use std::collections::BTreeMap;

use holm_api::{Event, EventKind};

use super::Verdict;

const NAME: &str = "capacity";

/// Judges one node's stream, from before the first VM on; each VM wants `vcpus`, and each node, by name, has
/// so many.
pub fn check(vcpus: u64, capacity: &BTreeMap<String, u64>, events: &[Event]) -> Verdict {
    let mut placed = BTreeMap::<&str, String>::new();
    let (mut waited, mut most) = (0, BTreeMap::<String, u64>::new());
    let mut violations = Vec::new();
    for event in events.iter().filter(|event| event.kind == EventKind::Vm) {
        match event.what.as_str() {
            "placed" => {
                let Some(node) = event.message.strip_prefix("on ").and_then(|rest| rest.split(' ').next())
                else {
                    return Verdict::unknown(NAME, format!("no node in the event {:?}", event.message));
                };
                placed.insert(&event.id, node.to_owned());
                let used = vcpus * placed.values().filter(|on| *on == node).count() as u64;
                let highest = most.entry(node.to_owned()).or_default();
                *highest = used.max(*highest);
                if capacity.get(node).is_none_or(|capacity| used > *capacity) {
                    violations.push(format!(
                        "{used} vCPUs placed on {node} at revision {} ({}), it has {}",
                        event.revision,
                        event.name,
                        capacity.get(node).copied().unwrap_or(0)
                    ));
                }
            }
            "deleted" | "rescheduling" | "failing-over" | "evacuated" => {
                drop(placed.remove(event.id.as_str()))
            }
            "waiting" => waited += 1,
            _ => {}
        }
    }
    let most: Vec<_> = most.into_iter().map(|(node, most)| format!("{node} {most}")).collect();
    let figures = format!("at most placed: {}; {waited} times a VM waited", most.join(", "));
    if violations.is_empty() && waited == 0 {
        return Verdict { figures, ..Verdict::unknown(NAME, "no VM ever had to wait for room") };
    }
    Verdict::of(NAME, violations, figures)
}

#[cfg(test)]
mod tests {
    use super::super::Finding;
    use super::super::testing::event;
    use super::*;

    fn judged(events: &[Event]) -> Verdict {
        check(3, &BTreeMap::from([("n1".to_owned(), 8), ("n2".to_owned(), 8)]), events)
    }

    #[test]
    fn what_fits_is_valid_and_what_is_deleted_makes_room() {
        let events = [
            event(1, "a", "placed", "on n1 at epoch 1"),
            event(2, "b", "placed", "on n1 at epoch 2"),
            event(3, "c", "waiting", "no node fits it"),
            event(4, "a", "deleted", ""),
            event(5, "c", "placed", "on n1 at epoch 5"),
            event(6, "d", "placed", "on n2 at epoch 6"),
        ];
        assert!(judged(&events).is_valid());
    }

    #[test]
    fn one_too_many_is_invalid() {
        let events: Vec<_> = ["a", "b", "c"]
            .iter()
            .zip(1..)
            .map(|(name, at)| event(at, name, "placed", "on n1 at epoch 1"))
            .collect();
        assert!(matches!(judged(&events).finding, Finding::Invalid(_)));
    }

    #[test]
    fn room_for_all_proves_nothing() {
        assert!(matches!(
            judged(&[event(1, "a", "placed", "on n1 at epoch 1")]).finding,
            Finding::Unknown(_)
        ));
    }
}
