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

    /// The raw weight, in any unit; more is better, unless it counts against the host.
    fn weigh(&self, request: &Request<'_>, host: &Host<'_>) -> i64;
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

    pub fn include(&mut self, raw: i64) {
        self.min = self.min.min(raw);
        self.max = self.max.max(raw);
    }

    /// Whether all hosts weigh the same, or there are none.
    pub fn is_flat(&self) -> bool {
        self.min >= self.max
    }

    /// `raw` between 0 and [`ONE`]; 0 when all hosts weigh the same.
    pub fn normalise(&self, raw: i64) -> i64 {
        let (Some(span), Some(offset)) = (self.max.checked_sub(self.min), raw.checked_sub(self.min)) else {
            // Wider than an i64: the same formula in wide integers.
            let span = i128::from(self.max) - i128::from(self.min);
            let scaled = (i128::from(raw) - i128::from(self.min)) * i128::from(ONE) / span;
            return i64::try_from(scaled).unwrap_or(ONE);
        };
        if span <= 0 {
            return 0;
        }
        match offset.checked_mul(ONE) {
            Some(scaled) => scaled / span,
            None => i64::try_from(i128::from(offset) * i128::from(ONE) / i128::from(span)).unwrap_or(ONE),
        }
    }
}

/// A normalised weight times its multiplier, in millionths.
pub fn weighted(multiplier_thousandths: i64, normalised: i64) -> i64 {
    multiplier_thousandths.saturating_mul(normalised) / 1000
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
        ];
        for (raw, of, expected) in cases {
            assert_eq!(range(raw).normalise(*of), *expected, "{of} of {raw:?}");
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
