//! Every process of a VM runs under an epoch at which the cluster placed that VM on that node. The epoch comes from
//! what the shim wrote down when it started the process, the placements from the events, which every node gives equally;
//! no daemon is asked what it thinks it runs.

use std::collections::BTreeMap;

use holm_api::{Event, EventKind};

use super::Verdict;
use crate::harness::witness::Lifetime;

const NAME: &str = "epochs";

/// Judges lifetimes by the events of one node, which reach back to before the first VM.
pub fn check(lifetimes: &[Lifetime], events: &[Event]) -> Verdict {
    let mut violations = Vec::new();
    let placed = match placements(events) {
        Ok(placed) => placed,
        Err(event) => return Verdict::unknown(NAME, format!("no placement in the event {event:?}")),
    };
    let with_epoch = lifetimes.iter().filter_map(|life| Some((life, life.epoch?)));
    let mut count = 0;
    for (life, epoch) in with_epoch {
        count += 1;
        let runs = format!("process {} of {} runs on {} at epoch {epoch}", life.pid, life.vm, life.node);
        match placed.get(&(life.vm.to_string(), epoch)) {
            Some(node) if **node == life.node => {}
            Some(node) => violations.push(format!("{runs}, at which it was placed on {node}")),
            None => violations.push(format!("{runs}, at which nothing placed it")),
        }
    }
    let figures = format!("{count} of {} processes, {} placements", lifetimes.len(), placed.len());
    match count {
        0 => Verdict { figures, ..Verdict::unknown(NAME, "no process was seen under an epoch") },
        _ => Verdict::of(NAME, violations, figures),
    }
}

/// The node of every VM and epoch.
fn placements(events: &[Event]) -> Result<BTreeMap<(String, u64), &str>, &Event> {
    let placed = events.iter().filter(|event| event.kind == EventKind::Vm && event.what == "placed");
    placed
        .map(|event| {
            let (node, epoch) = event
                .message
                .strip_prefix("on ")
                .and_then(|rest| rest.split_once(" at epoch "))
                .ok_or(event)?;
            let epoch = epoch.parse().map_err(|_| event)?;
            Ok(((event.id.clone(), epoch), node))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::Finding;
    use super::super::testing::{self, event};
    use super::*;

    fn life(node: &str, epoch: Option<u64>) -> Lifetime {
        Lifetime { epoch, ..testing::life(1, node, 7, (10, 20)) }
    }

    fn placed(on: &str) -> Event {
        event(5, &Uuid::from_u128(1).to_string(), "placed", on)
    }

    #[test]
    fn a_process_where_and_when_it_was_placed_is_valid() {
        assert!(check(&[life("n1", Some(5)), life("n1", None)], &[placed("on n1 at epoch 5")]).is_valid());
    }

    #[test]
    fn another_epoch_and_another_node_are_invalid() {
        let events = [placed("on n1 at epoch 5")];
        assert!(!check(&[life("n1", Some(4))], &events).is_valid());
        assert!(!check(&[life("n2", Some(5))], &events).is_valid());
        assert!(!check(&[life("n1", Some(5))], &[]).is_valid());
    }

    #[test]
    fn without_epochs_or_with_events_of_another_version_nothing_is_proved() {
        for judged in [
            check(&[life("n1", None)], &[placed("on n1 at epoch 5")]),
            check(&[life("n1", Some(5))], &[placed("somewhere")]),
        ] {
            assert!(matches!(judged.finding, Finding::Unknown(_)), "{judged:?}");
        }
    }
}
