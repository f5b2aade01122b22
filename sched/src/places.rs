//! Where hosts are: their aggregates, the zone these make, and what their metadata says. Many hosts are in one place, so
//! that a decision works out few.

use std::ops::Bound;
use std::rc::Rc;

use holm_model::aggregate::{Aggregate, DEFAULT_ZONE};
use holm_model::{NodeId, State};

/// One combination of aggregates.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    zone: &'a str,
    /// By id.
    aggregates: Vec<&'a Aggregate>,
}

/// The place of each of `ids`, which ascend.
pub fn of<'a>(state: &'a State, ids: &[NodeId]) -> impl Iterator<Item = Rc<Place<'a>>> + use<'a> {
    let mut places: Vec<Vec<&Aggregate>> = vec![Vec::new()];
    let mut of_host = vec![0; ids.len()];
    for aggregate in state.aggregates.values() {
        // Where those go on that are in a place so far, and in this aggregate.
        let mut onward: Vec<Option<usize>> = vec![None; places.len()];
        // Both sides ascend, so one walk over the ids finds every pair.
        let mut at = 0;
        for node in &aggregate.nodes {
            at += ahead(&ids[at..], *node);
            if ids.get(at) != Some(node) {
                continue;
            }
            let place = &mut of_host[at];
            *place = *onward[*place].get_or_insert_with(|| {
                places.push(places[*place].iter().copied().chain([aggregate]).collect());
                places.len() - 1
            });
        }
    }
    let places: Vec<_> = places.into_iter().map(|aggregates| Rc::new(Place::of(aggregates))).collect();
    of_host.into_iter().map(move |place| Rc::clone(&places[place]))
}

/// How many of `ids` are less than `node`: in steps that double, since it is mostly among the first.
fn ahead(ids: &[NodeId], node: NodeId) -> usize {
    let mut beyond = 1;
    while ids.get(beyond - 1).is_some_and(|id| *id < node) {
        beyond *= 2;
    }
    let within = &ids[..beyond.min(ids.len())];
    within.partition_point(|id| *id < node)
}

impl<'a> Place<'a> {
    fn of(aggregates: Vec<&'a Aggregate>) -> Self {
        let zone = aggregates.iter().find_map(|aggregate| aggregate.zone());
        Self { zone: zone.unwrap_or(DEFAULT_ZONE), aggregates }
    }

    /// The availability zone.
    pub fn zone(&self) -> &'a str {
        self.zone
    }

    fn aggregates(&self) -> impl Iterator<Item = &'a Aggregate> + Clone {
        self.aggregates.iter().copied()
    }

    /// Values of a metadata key over its aggregates, each split at commas as Nova does.
    pub fn metadata(&self, key: &str) -> impl Iterator<Item = &'a str> + Clone {
        self.raw_metadata(key).flat_map(|value| value.split(',')).map(str::trim)
    }

    /// The same of all keys that begin so.
    pub fn metadata_of_keys(&self, beginning: &str) -> impl Iterator<Item = &'a str> + Clone {
        let values = self.aggregates().flat_map(move |aggregate| {
            let from = (Bound::Included(beginning), Bound::Unbounded);
            let following = aggregate.metadata.range::<str, _>(from);
            following.take_while(move |(key, _)| key.starts_with(beginning))
        });
        values.flat_map(|(_, value)| value.split(',')).map(str::trim)
    }

    /// The least number its aggregates give by this key; none where one of them is no number, as in Nova.
    pub fn least(&self, key: &str) -> Option<u32> {
        let numbers = self.raw_metadata(key).map(|value| value.trim().parse().ok());
        numbers.reduce(|a: Option<u32>, b| a.zip(b).map(|(a, b)| a.min(b))).flatten()
    }

    /// Values of a metadata key over its aggregates as they stand.
    pub fn raw_metadata(&self, key: &str) -> impl Iterator<Item = &'a str> + Clone {
        self.aggregates().filter_map(move |aggregate| aggregate.metadata.get(key)).map(String::as_str)
    }
}
