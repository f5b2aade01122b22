//! Events are gap-free and equally ordered: every node's stream, followed across that node's deaths, gave the
//! same events in the same order, rising by (revision, n), with n counting from 0 within a revision.

use holm_api::Event;

use super::Verdict;
use crate::harness::events::Stream;

const NAME: &str = "events";

/// Judges one stream a node, each from the same revision to at least `until`.
pub fn check(nodes: usize, until: u64, streams: &[Stream]) -> Verdict {
    if streams.len() != nodes || streams.is_empty() {
        return Verdict::unknown(NAME, format!("{} of {nodes} nodes were followed", streams.len()));
    }
    if let Some(broken) =
        streams.iter().find_map(|stream| stream.broken.as_ref().map(|why| (&stream.node, why)))
    {
        return Verdict::unknown(NAME, format!("the stream of {} could not go on: {}", broken.0, broken.1));
    }
    let mut violations: Vec<_> = streams.iter().filter_map(out_of_order).collect();
    let upto = |stream: &Stream| -> Vec<Event> {
        stream.events.iter().filter(|event| event.revision <= until).cloned().collect()
    };
    let first = upto(&streams[0]);
    for other in &streams[1..] {
        violations.extend(difference((&streams[0].node, &first), (&other.node, &upto(other))));
    }
    let resumed: u64 = streams.iter().map(|stream| stream.connections.saturating_sub(1)).sum();
    let figures = format!("{} events up to revision {until}, {resumed} reconnections", first.len());
    Verdict::of(NAME, violations, figures)
}

fn out_of_order(stream: &Stream) -> Option<String> {
    let place = |event: &Event| (event.revision, event.n);
    if let Some(first) = stream.events.first().filter(|event| event.n != 0) {
        return Some(format!("{} begins inside revision {}", stream.node, first.revision));
    }
    stream.events.windows(2).find_map(|pair| {
        let (before, after) = (place(&pair[0]), place(&pair[1]));
        let follows = after == (before.0, before.1 + 1) || (after.0 > before.0 && after.1 == 0);
        (!follows).then(|| format!("{}: {after:?} follows {before:?}", stream.node))
    })
}

fn difference(left: (&str, &[Event]), right: (&str, &[Event])) -> Option<String> {
    let at = left.1.iter().zip(right.1).position(|(left, right)| left != right);
    let show = |event: &Event| format!("({}, {}) {} {}", event.revision, event.n, event.name, event.what);
    match at {
        Some(at) => Some(format!(
            "event {at}: {} has {}, {} has {}",
            left.0,
            show(&left.1[at]),
            right.0,
            show(&right.1[at])
        )),
        None if left.1.len() != right.1.len() => {
            Some(format!("{} has {} events, {} has {}", left.0, left.1.len(), right.0, right.1.len()))
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use holm_api::{EventKind, Timestamp};

    use super::super::Finding;
    use super::*;

    fn stream(node: &str, events: &[(u64, u32, &str)]) -> Stream {
        let event = |(revision, n, what): &(u64, u32, &str)| Event {
            revision: *revision,
            n: *n,
            at: Timestamp(String::new()),
            kind: EventKind::Vm,
            id: "1".into(),
            name: "a".into(),
            what: (*what).to_owned(),
            message: String::new(),
            actor: String::new(),
        };
        let events = events.iter().map(event).collect();
        Stream { node: node.to_owned(), events, at: 9, connections: 1, broken: None }
    }

    const GOOD: &[(u64, u32, &str)] = &[(2, 0, "created"), (4, 0, "placed"), (4, 1, "active")];

    #[test]
    fn equal_streams_are_valid_and_what_comes_after_the_end_does_not_count() {
        let longer = [GOOD, &[(9, 0, "deleted")]].concat();
        assert!(check(2, 5, &[stream("n1", GOOD), stream("n2", &longer)]).is_valid());
    }

    #[test]
    fn gaps_repetitions_and_another_order_are_invalid() {
        for bad in [
            &[(2, 0, "created"), (4, 1, "active")][..],
            &[(2, 0, "created"), (4, 0, "placed")],
            &[(2, 0, "created"), (2, 0, "created"), (4, 0, "placed"), (4, 1, "active")],
            &[(4, 0, "placed"), (4, 1, "active"), (2, 0, "created")],
            &[(4, 1, "active")],
            &[(2, 0, "created"), (4, 0, "deleted"), (4, 1, "active")],
            &[],
        ] {
            assert!(!check(2, 9, &[stream("n1", GOOD), stream("n2", bad)]).is_valid(), "{bad:?}");
        }
    }

    #[test]
    fn a_stream_that_broke_off_or_is_missing_proves_nothing() {
        let broken = Stream { broken: Some("compacted".into()), ..stream("n2", GOOD) };
        assert!(matches!(check(2, 5, &[stream("n1", GOOD), broken]).finding, Finding::Unknown(_)));
        assert!(matches!(check(2, 5, &[stream("n1", GOOD)]).finding, Finding::Unknown(_)));
    }
}
