//! A weigher: how much one host is preferred over another. As in Nova, raw weights of the hosts that
//! passed are scaled to 0..1 between the least and the greatest, multiplied and summed; here in integers,
//! 1 being [`ONE`], so that every leader reaches the same sum.

use crate::host::Host;
use crate::request::Request;

/// The normalised weight of the best host: 1.0 in millionths.
pub const ONE: i64 = 1_000_000;

/// A soft preference.
pub trait Weigher: Send + Sync {
    /// Shown to users who ask why a host was chosen.
    fn name(&self) -> &'static str;

    /// Whether it could tell hosts apart at all; asked once a request.
    fn applies(&self, _request: &Request<'_>) -> bool {
        true
    }

    /// Whether the weight counts against a host: its multiplier is then taken negative, as in Nova's
    /// `BuildFailureWeigher`.
    fn against(&self) -> bool {
        false
    }

    /// What counts as nothing, as does all below: Nova's `minval`. Hosts with almost as much then weigh almost the same,
    /// however close the others are. None where the least host is nothing.
    fn floor(&self) -> Option<i64> {
        None
    }

    /// The raw weight, in any unit; more is better, unless it counts against the host.
    fn weigh(&self, request: &Request<'_>, host: &Host<'_>) -> i64;

    /// Adds those of `these`, indices of `hosts`, to `raw` in their order: called through a pointer once for many.
    fn weigh_all(&self, request: &Request<'_>, hosts: &[Host<'_>], these: &[usize], raw: &mut Vec<i64>) {
        raw.extend(these.iter().map(|at| self.weigh(request, &hosts[*at])));
    }
}

/// The range of one weigher's raw weights over the hosts that passed.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    min: i64,
    max: i64,
}

impl Range {
    /// The range of nothing yet.
    pub const EMPTY: Self = Self { min: i64::MAX, max: i64::MIN };

    pub fn of(raw: &[i64]) -> Self {
        raw.iter().fold(Self::EMPTY, |range, raw| Self { min: range.min.min(*raw), max: range.max.max(*raw) })
    }

    #[inline]
    pub fn include(&mut self, raw: i64) {
        self.min = self.min.min(raw);
        self.max = self.max.max(raw);
    }

    /// The same with `floor` as the least, where there is one.
    pub fn from(self, floor: Option<i64>) -> Self {
        floor.map_or(self, |min| Self { min, max: self.max.max(min) })
    }

    /// Whether all hosts weigh the same, or there are none.
    pub fn is_flat(&self) -> bool {
        self.min >= self.max
    }

    /// What brings raw weights of this range between 0 and [`ONE`].
    pub fn scale(self) -> Scale {
        let span = self.max.abs_diff(self.min);
        let reciprocal = if self.is_flat() || span > SPAN_MAX { 0 } else { u64::MAX / span };
        Scale { range: self, span, reciprocal }
    }
}

/// Spans up to here are scaled in narrow integers.
const SPAN_MAX: u64 = u64::MAX / ONE as u64;

/// Divides by one span for many hosts: a multiplication by its reciprocal and a correction, exact, since a
/// division per host and weigher would be most of what a decision costs.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    range: Range,
    span: u64,
    /// 0 where the range is flat, or too wide.
    reciprocal: u64,
}

impl Scale {
    /// `raw`, which is not above the range, between 0 and [`ONE`], rounded down; 0 when all hosts weigh the same.
    #[inline]
    pub fn normalise(&self, raw: i64) -> i64 {
        let raw = raw.max(self.range.min);
        if self.reciprocal == 0 {
            return self.normalise_wide(raw);
        }
        let scaled = raw.abs_diff(self.range.min) * ONE as u64;
        // Never too great, and too small by one at most: the reciprocal is rounded down.
        let quotient = ((u128::from(scaled) * u128::from(self.reciprocal)) >> 64) as u64;
        (quotient + u64::from(scaled - quotient * self.span >= self.span)) as i64
    }

    /// The answers to every weight of the range, where it is narrow and `hosts` would ask for more.
    pub fn table(&self, hosts: usize) -> Option<Table> {
        let narrow = self.span <= TABLE_MAX && self.span < hosts as u64;
        let normalised = |offset| self.normalise(self.range.min + offset);
        narrow.then(|| Table {
            min: self.range.min,
            normalised: (0..=self.span as i64).map(normalised).collect(),
        })
    }

    /// The same formula in wide integers.
    #[cold]
    fn normalise_wide(&self, raw: i64) -> i64 {
        if self.range.is_flat() {
            return 0;
        }
        let offset = u128::from(raw.abs_diff(self.range.min));
        i64::try_from(offset * ONE as u128 / u128::from(self.span)).unwrap_or(ONE)
    }
}

/// Spans up to here have a table that stays in the processor's nearest cache.
const TABLE_MAX: u64 = 1024;

/// A narrow range, normalised once for all.
#[derive(Clone, Debug)]
pub struct Table {
    min: i64,
    normalised: Vec<i64>,
}

impl Table {
    /// [`Scale::normalise`].
    #[inline]
    pub fn normalise(&self, raw: i64) -> i64 {
        self.normalised[(raw.max(self.min) - self.min) as usize]
    }
}

/// A normalised weight times its multiplier, in millionths. Far from overflow: a multiplier is
/// `holm_model::policy::MULTIPLIER_MAX` at most.
#[inline]
pub fn weighted(multiplier_thousandths: i64, normalised: i64) -> i64 {
    multiplier_thousandths * normalised / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(of: &[i64]) -> Range {
        let mut range = Range::EMPTY;
        of.iter().for_each(|raw| range.include(*raw));
        range
    }

    #[test]
    fn normalisation_is_novas_min_max() {
        let cases: &[(&[i64], i64, i64)] = &[
            (&[0, 50, 100], 0, 0),
            (&[0, 50, 100], 50, 500_000),
            (&[0, 50, 100], 100, ONE),
            (&[-100, 100], 0, 500_000),
            (&[7, 7, 7], 7, 0),
            (&[7], 7, 0),
            (&[0, 3], 1, 333_333),
            (&[0, i64::MAX], i64::MAX, ONE),
            (&[i64::MIN, i64::MAX], i64::MAX, ONE),
            (&[i64::MIN, i64::MAX], i64::MIN, 0),
            (&[0, 1], 1, ONE),
            (&[0, 999_999_999_999], 999_999_999_998, 999_999),
            (&[5, 9_223_372_036_854], 9_223_372_036_853, 999_999),
            (&[5, 9_223_372_036_859], 9_223_372_036_858, 999_999),
        ];
        for (raw, of, expected) in cases {
            assert_eq!(range(raw).scale().normalise(*of), *expected, "{of} of {raw:?}");
        }
    }

    #[test]
    fn scaling_is_exactly_the_division() {
        for span in (1..200u64).chain([4096, 65_537, 999_983, 1 << 40, (1 << 43) - 1]) {
            let scale = range(&[0, span as i64]).scale();
            for offset in (0..=span.min(300)).chain([span / 3, span / 2, span - span / 7, span]) {
                let exact = u128::from(offset) * ONE as u128 / u128::from(span);
                assert_eq!(scale.normalise(offset as i64) as u128, exact, "{offset} of {span}");
            }
        }
    }

    #[test]
    fn multipliers_are_in_thousandths_and_may_be_negative() {
        assert_eq!(weighted(1000, 500_000), 500_000);
        assert_eq!(weighted(2500, 500_000), 1_250_000);
        assert_eq!(weighted(-1000, 500_000), -500_000);
        assert_eq!(weighted(0, ONE), 0);
    }
}
