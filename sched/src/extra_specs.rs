//! Nova's little language in extra specs: an operator and its operands, compared with what a host or an
//! aggregate says. Semantics are those of Nova's `extra_specs_ops`, surprises included: `=` means at
//! least, `<in>` looks for a substring, and a text without an operator is compared as it stands.

use holm_model::decimal::Decimal;

/// Whether `value` meets `requirement`.
///
/// A number is compared as a number; what is none never meets a numeric requirement (Nova fails the whole
/// request there).
pub fn matches(value: &str, requirement: &str) -> bool {
    let mut words = requirement.split_whitespace();
    let operator = words.next().unwrap_or_default();
    let number = |holds: fn(&Decimal, &Decimal) -> bool| {
        let wanted = requirement.split_whitespace().nth(1).and_then(Decimal::parse);
        Decimal::parse(value).zip(wanted).is_some_and(|(value, wanted)| holds(&value, &wanted))
    };
    let text = |holds: fn(&str, &str) -> bool| {
        requirement.split_whitespace().nth(1).is_some_and(|wanted| holds(value, wanted))
    };
    match operator {
        "=" | ">=" => number(|value, wanted| value >= wanted),
        "<=" => number(|value, wanted| value <= wanted),
        "==" => number(|value, wanted| value == wanted),
        "!=" => number(|value, wanted| value != wanted),
        "s==" => text(|value, wanted| value == wanted),
        "s!=" => text(|value, wanted| value != wanted),
        "s<" => text(|value, wanted| value < wanted),
        "s<=" => text(|value, wanted| value <= wanted),
        "s>" => text(|value, wanted| value > wanted),
        "s>=" => text(|value, wanted| value >= wanted),
        "<in>" => text(|value, wanted| value.contains(wanted)),
        "<all-in>" => {
            let mut wanted = words.peekable();
            wanted.peek().is_some() && wanted.all(|wanted| value.contains(wanted))
        }
        // `<or> a <or> b`: every second word is an alternative.
        "<or>" => words.step_by(2).any(|alternative| alternative == value),
        _ => value == requirement,
    }
}
