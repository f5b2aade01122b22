//! Where hosts are: their aggregates, the zone these make, and what their metadata says. Many hosts are in one place, so
//! that a decision works out few.

use std::iter::Peekable;
use std::ops::Bound;
use std::rc::Rc;

use holm_model::aggregate::Aggregate;
use holm_model::{NodeId, State};

/// One combination of aggregates.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    zone: Option<&'a str>,
    /// By id.
    aggregates: Vec<&'a Aggregate>,
}

/// All that there are, told of host after host.
pub struct Places<'a> {
    members: Vec<Members<'a>>,
    known: Vec<Rc<Place<'a>>>,
}

/// An aggregate, and which of its nodes are to come.
struct Members<'a> {
    aggregate: &'a Aggregate,
    nodes: Peekable<Box<dyn Iterator<Item = NodeId> + 'a>>,
    /// Where those go on that are in this aggregate, too: by the place they were in, 0 being none and 1 the first known.
    onward: Vec<Option<usize>>,
}

impl<'a> Places<'a> {
    pub fn of(state: &'a State) -> Self {
        let members = |aggregate: &'a Aggregate| {
            let nodes: Box<dyn Iterator<Item = NodeId>> = Box::new(aggregate.nodes.iter().copied());
            Members { aggregate, nodes: nodes.peekable(), onward: Vec::new() }
        };
        Self { members: state.aggregates.values().map(members).collect(), known: Vec::new() }
    }

    /// Calls `is_in` with the index and the place of those of `ids` that are in an aggregate. They ascend, and come
    /// after those asked for before.
    pub fn tell(&mut self, ids: &[NodeId], mut is_in: impl FnMut(usize, &Rc<Place<'a>>)) {
        let Some(last) = ids.last() else { return };
        let mut places = vec![0; ids.len()];
        for Members { aggregate, nodes, onward } in &mut self.members {
            // Both sides ascend, so one walk over the ids finds every pair.
            let mut at = 0;
            while let Some(node) = nodes.next_if(|node| node <= last) {
                at += ids[at..].iter().take_while(|id| **id < node).count();
                if ids[at] != node {
                    continue;
                }
                let place = &mut places[at];
                onward.resize(onward.len().max(*place + 1), None);
                *place = *onward[*place].get_or_insert_with(|| {
                    let before = place.checked_sub(1).map(|known| &*self.known[known]);
                    self.known.push(Rc::new(Place::within(before, aggregate)));
                    self.known.len()
                });
            }
        }
        for (at, place) in places.into_iter().enumerate().filter(|(_, place)| *place > 0) {
            is_in(at, &self.known[place - 1]);
        }
    }
}

impl<'a> Place<'a> {
    /// In `aggregate`, and in those of another place.
    fn within(other: Option<&Self>, aggregate: &'a Aggregate) -> Self {
        let before = other.map(|other| other.aggregates.as_slice()).unwrap_or_default();
        let zone = other.and_then(|other| other.zone).or(aggregate.zone());
        Self { zone, aggregates: before.iter().copied().chain([aggregate]).collect() }
    }

    /// The zone that its aggregates make, if one does.
    pub fn zone(&self) -> Option<&'a str> {
        self.zone
    }

    fn aggregates(&self) -> impl Iterator<Item = &'a Aggregate> + Clone {
        self.aggregates.iter().copied()
    }

    /// Values of a metadata key over its aggregates.
    pub fn metadata(&self, key: &str) -> impl Iterator<Item = &'a str> + Clone {
        self.aggregates().filter_map(move |aggregate| aggregate.metadata.get(key)).map(String::as_str)
    }

    /// The same of all keys that begin so.
    pub fn metadata_of_keys(&self, beginning: &str) -> impl Iterator<Item = &'a str> + Clone {
        let values = self.aggregates().flat_map(move |aggregate| {
            let from = (Bound::Included(beginning), Bound::Unbounded);
            let following = aggregate.metadata.range::<str, _>(from);
            following.take_while(move |(key, _)| key.starts_with(beginning))
        });
        values.map(|(_, value)| value.as_str())
    }
}
