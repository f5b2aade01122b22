//! Pages of lists: in the order of ids, which are made in time order, so a list shows the oldest first and
//! a page stays what it was when records come and go around it.

use std::fmt::Display;
use std::ops::Bound;
use std::str::FromStr;

use holm_api::list::{DEFAULT_LIMIT, MAX_LIMIT};
use holm_api::{Code, List};
use holm_model::Revision;

use super::problem::{Failure, Result};

/// What part of a list is wanted.
pub struct Page<K> {
    limit: usize,
    after: Option<K>,
}

impl<K: FromStr + Display + Ord + Clone> Page<K> {
    /// From the query's `limit` and `marker`.
    pub fn new(limit: Option<u32>, marker: Option<&str>) -> Result<Self> {
        let after = marker
            .map(|marker| {
                marker.parse::<K>().map_err(|_| {
                    Failure::new(Code::InvalidQuery, format!("{marker:?} is no marker"))
                        .field("marker")
                        .hint("use the `next` of the page before")
                })
            })
            .transpose()?;
        Ok(Self { limit: checked_limit(limit)?, after })
    }

    /// Where in the map the page begins.
    pub fn start(&self) -> (Bound<K>, Bound<K>) {
        (self.after.clone().map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
    }

    /// Cuts the page from `rest`, the records from [`Page::start`] on, already filtered.
    pub fn cut<'a, V: 'a, T>(
        &self,
        revision: Revision,
        rest: impl Iterator<Item = (&'a K, &'a V)>,
        show: impl Fn(&V) -> T,
    ) -> List<T>
    where
        K: 'a,
    {
        let mut rest = rest.peekable();
        let mut items = Vec::new();
        let mut last = None;
        while items.len() < self.limit
            && let Some((key, value)) = rest.next()
        {
            items.push(show(value));
            last = Some(key);
        }
        let next = rest.peek().and(last).map(ToString::to_string);
        List { items, next, revision: revision.0 }
    }
}

/// The query's `limit`, or the default.
pub fn checked_limit(limit: Option<u32>) -> Result<usize> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if (1..=MAX_LIMIT).contains(&limit) {
        Ok(limit as usize)
    } else {
        Err(Failure::new(Code::InvalidQuery, format!("is {limit}, must be 1 to {MAX_LIMIT}")).field("limit"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn pages_follow_each_other_without_gap_or_repeat() {
        let map: BTreeMap<u64, u64> = (1..=5).map(|n| (n, n * 10)).collect();
        let page = |marker: Option<&str>| {
            let page = Page::<u64>::new(Some(2), marker).unwrap();
            page.cut(Revision(7), map.range(page.start()), |value: &u64| *value)
        };
        let list = |items: &[u64], next: Option<&str>| List {
            items: items.to_vec(),
            next: next.map(str::to_owned),
            revision: 7,
        };
        assert_eq!(page(None), list(&[10, 20], Some("2")));
        assert_eq!(page(Some("2")), list(&[30, 40], Some("4")));
        assert_eq!(page(Some("4")), list(&[50], None));
        assert_eq!(page(Some("9")), list(&[], None));
    }

    #[test]
    fn a_bad_limit_or_marker_is_named() {
        let field = |limit, marker| Page::<u64>::new(limit, marker).err().and_then(|failure| failure.field);
        assert_eq!(field(Some(0), None).as_deref(), Some("limit"));
        assert_eq!(field(Some(1001), None).as_deref(), Some("limit"));
        assert_eq!(field(None, Some("x")).as_deref(), Some("marker"));
    }
}
