//! Decimal numbers as people write them in metadata and extra specs, exact and without floats, so that
//! every replica reads the same.

/// How much of a fraction counts: billionths.
const SCALE_DIGITS: usize = 9;
const SCALE: i128 = 1_000_000_000;
/// Most digits before the point; far from the edge of an `i128`.
const WHOLE_DIGITS_MAX: usize = 20;

/// A number in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal(i128);

impl Decimal {
    /// Reads `-12`, `+0.5`, `.5` or `3.`; none for anything else, exponents, `inf` and `nan` included.
    /// Digits beyond billionths are cut off.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0
            || whole.len() > WHOLE_DIGITS_MAX
            || !plain(whole)
            || !plain(fraction)
        {
            return None;
        }
        let number = |part: &str| part.bytes().fold(0i128, |sum, digit| sum * 10 + i128::from(digit - b'0'));
        let kept = &fraction[..fraction.len().min(SCALE_DIGITS)];
        let missing = (kept.len()..SCALE_DIGITS).fold(1i128, |scale, _| scale * 10);
        let value = number(whole) * SCALE + number(kept) * missing;
        Some(Self(if negative { -value } else { value }))
    }

    /// In thousandths, cut off, held within ±`max`.
    pub fn thousandths(self, max: i64) -> i64 {
        let thousandths = self.0 / (SCALE / 1000);
        i64::try_from(thousandths.clamp(-i128::from(max), i128::from(max))).unwrap_or(max)
    }

    /// In thousandths; none where there are more decimals, or more than ±`max`.
    pub fn exact_thousandths(self, max: i64) -> Option<i64> {
        let thousandths = i64::try_from(self.0 / (SCALE / 1000)).ok()?;
        let is_exact = self.0 % (SCALE / 1000) == 0 && thousandths.unsigned_abs() <= max.unsigned_abs();
        is_exact.then_some(thousandths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_exactly_or_not_at_all() {
        let cases: &[(&str, Option<i64>)] = &[
            ("1", Some(1000)),
            ("-1.5", Some(-1500)),
            ("+0.25", Some(250)),
            (".5", Some(500)),
            ("3.", Some(3000)),
            ("0.0009", Some(0)),
            ("99999999999999999999", Some(1_000_000)),
            ("-99999999999999999999", Some(-1_000_000)),
            ("999999999999999999999", None),
            ("", None),
            (".", None),
            ("-", None),
            ("1e3", None),
            ("nan", None),
            ("inf", None),
            ("1,5", None),
            ("1.2.3", None),
            (" 1", None),
            ("é", None),
        ];
        for (text, expected) in cases {
            let read = Decimal::parse(text).map(|decimal| decimal.thousandths(1_000_000));
            assert_eq!(read, *expected, "{text:?}");
        }
    }

    #[test]
    fn three_decimals_within_bounds_are_exact() {
        let cases = [
            ("-1.5", Some(-1500)),
            ("0.001", Some(1)),
            ("0.0001", None),
            ("1000", Some(1_000_000)),
            ("-1000.001", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in cases {
            let exact = Decimal::parse(text).expect("a number").exact_thousandths(1_000_000);
            assert_eq!(exact, expected, "{text:?}");
        }
    }

    #[test]
    fn order_is_that_of_numbers_not_of_text() {
        let number = |text| Decimal::parse(text).expect("a number");
        assert!(number("10") > number("9.5"));
        assert_eq!(number("1.50"), number("1.5"));
        assert!(number("-2") < number("-1.999"));
    }
}
