//! What is asked of `/v1/allocation-candidates`, in the words of Placement's query. Reading it needs no state; what it
//! names is looked up afterwards. Every refusal names the parameter and what to write instead.

use std::collections::BTreeSet;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use holm_api::{CandidatesQuery, Code, Consistency};
use holm_model::aggregate::Aggregate;
use holm_model::limits::{self, AMOUNT_MAX};
use holm_model::reply::Kind;
use holm_model::{Reason, ResourceClass, Resources, State as Model};
use holm_sched::candidates::Demand;

use super::super::extract::Repeated;
use super::super::page::checked_limit;
use super::super::problem::{Failure, Result};

const REQUIRED: &str = "required";
const MEMBER_OF: &str = "member_of";

/// A question as it was sent.
pub struct Question {
    pub of: Of,
    /// Traits of `required`.
    pub traits: Vec<Demand>,
    member_of: Vec<Membership>,
    pub limit: usize,
    pub consistency: Consistency,
}

/// What candidates are to take.
pub enum Of {
    /// A VM of this flavor, by name or id.
    Flavor(String),
    /// A VM that asks for these amounts.
    Resources(Resources),
}

/// Of a `member_of`: hosts in any of these, or in none.
#[derive(Debug, PartialEq, Eq)]
struct Membership {
    none: bool,
    names: Vec<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Question {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let repeated = Repeated::split(&parts.uri, &[REQUIRED, MEMBER_OF])?;
        Self::read(repeated.others()?, &repeated.given)
    }
}

impl Question {
    fn read(query: CandidatesQuery, given: &[(String, String)]) -> Result<Self> {
        let of = match (query.flavor, query.resources) {
            (Some(flavor), None) => Of::Flavor(flavor),
            (None, Some(resources)) => Of::Resources(amounts(&resources)?),
            (None, None) => {
                return Err(bad("flavor", "name a `flavor`, or `resources` such as VCPU:2,MEMORY_MB:1024"));
            }
            (Some(_), Some(_)) => {
                return Err(bad(
                    "resources",
                    "a flavor says what it asks for: give `flavor` or `resources`, not both",
                ));
            }
        };
        let (mut traits, mut member_of) = (Vec::new(), Vec::new());
        for (name, value) in given {
            match name.as_str() {
                REQUIRED => traits.extend(required(value)?),
                _ => member_of.push(membership(value)?),
            }
        }
        limits::count(REQUIRED, traits.len()).map_err(in_query)?;
        limits::count(MEMBER_OF, member_of.len()).map_err(in_query)?;
        agree(&traits)?;
        let limit = checked_limit(query.limit)?;
        Ok(Self { of, traits, member_of, limit, consistency: query.consistency })
    }

    /// The demands of `member_of`, on the aggregates of `state`.
    pub fn member_of(&self, state: &Model) -> Result<Vec<Demand>> {
        let demand = |membership: &Membership| {
            let mut aggregates = Vec::new();
            for name in &membership.names {
                aggregates.extend(find(state, name)?);
            }
            let members = aggregates.into_iter().collect();
            Ok(if membership.none { Demand::NoAggregate(members) } else { Demand::AnyAggregate(members) })
        };
        self.member_of.iter().map(demand).collect()
    }
}

/// The aggregate of this name or id, or else those that make the zone of this name.
fn find<'a>(state: &'a Model, name: &str) -> Result<Vec<&'a Aggregate>> {
    if let Some(aggregate) = state.find_aggregate(name) {
        return Ok(vec![aggregate]);
    }
    let zone: Vec<_> = state.aggregates.values().filter(|aggregate| aggregate.zone() == Some(name)).collect();
    if zone.is_empty() {
        let unknown = Failure::unknown_reference(MEMBER_OF, Kind::Aggregate, name);
        return Err(Failure { code: Code::InvalidQuery, ..unknown });
    }
    Ok(zone)
}

/// `VCPU:2,MEMORY_MB:1024`, each class once, as Placement takes them.
fn amounts(text: &str) -> Result<Resources> {
    let mut amounts = Resources::default();
    for item in text.split(',') {
        let Some((class, amount)) = item.split_once(':') else {
            let message = format!("{item:?} is no CLASS:AMOUNT; write VCPU:2,MEMORY_MB:1024");
            return Err(bad("resources", message));
        };
        let class = ResourceClass::from(class.to_owned());
        limits::resource_class("resources", &class).map_err(in_query)?;
        let amount = match amount.parse() {
            Ok(amount @ 1..=AMOUNT_MAX) => amount,
            _ => {
                let message = format!("{class}:{amount}: must be a whole number from 1 to {AMOUNT_MAX}");
                return Err(bad("resources", message));
            }
        };
        if amounts.0.insert(class.clone(), amount).is_some() {
            return Err(bad("resources", format!("{class} is named twice; add the amounts up")));
        }
    }
    limits::count("resources", amounts.0.len()).map_err(in_query)?;
    Ok(amounts)
}

/// `A,!B`: all of these; `in:A,B`: one of these.
fn required(value: &str) -> Result<Vec<Demand>> {
    let names = |names: &str| -> Result<Vec<String>> {
        let name = |name: &str| {
            let plain = !name.contains(['!', ':']);
            match limits::key(REQUIRED, name) {
                Ok(()) if plain => Ok(name.to_owned()),
                _ => Err(bad(
                    REQUIRED,
                    format!("{name:?} is no trait; write A,!B for all of these, in:A,B for one of them"),
                )),
            }
        };
        names.split(',').map(name).collect()
    };
    if let Some(any) = value.strip_prefix("in:") {
        return Ok(vec![Demand::AnyTrait(names(any)?)]);
    }
    let demand = |item: &str| match item.strip_prefix('!') {
        Some(forbidden) => Ok(names(forbidden)?.into_iter().map(Demand::NoTrait).collect::<Vec<_>>()),
        None => Ok(vec![Demand::AnyTrait(names(item)?)]),
    };
    Ok(value.split(',').map(demand).collect::<Result<Vec<_>>>()?.concat())
}

/// What is required may not be forbidden too: no host could have it.
fn agree(traits: &[Demand]) -> Result<()> {
    let forbidden: BTreeSet<&String> = traits
        .iter()
        .filter_map(|demand| if let Demand::NoTrait(name) = demand { Some(name) } else { None })
        .collect();
    for demand in traits {
        let Demand::AnyTrait(any) = demand else { continue };
        if any.iter().all(|name| forbidden.contains(name)) {
            return Err(bad(REQUIRED, format!("{} is both required and forbidden", any.join(", "))));
        }
    }
    Ok(())
}

/// `A`, `in:A,B`, or either behind a `!`.
fn membership(value: &str) -> Result<Membership> {
    let (none, rest) = value.strip_prefix('!').map_or((false, value), |rest| (true, rest));
    let names: Vec<String> = match rest.strip_prefix("in:") {
        Some(names) => names.split(',').map(str::to_owned).collect(),
        None => vec![rest.to_owned()],
    };
    if names.iter().any(|name| name.is_empty() || name.contains([',', '!'])) {
        let message =
            format!("{value:?} names no aggregate; write A, in:A,B for any of these, or either behind a !");
        return Err(bad(MEMBER_OF, message));
    }
    limits::count(MEMBER_OF, names.len()).map_err(in_query)?;
    Ok(Membership { none, names })
}

fn bad(field: &str, message: impl Into<String>) -> Failure {
    Failure::new(Code::InvalidQuery, message).field(field)
}

fn in_query(reason: Reason) -> Failure {
    Failure { code: Code::InvalidQuery, ..reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Question> {
        let uri = format!("/v1/allocation-candidates?{query}").parse().expect("a target");
        let repeated = Repeated::split(&uri, &[REQUIRED, MEMBER_OF])?;
        Question::read(repeated.others()?, &repeated.given)
    }

    fn asked(query: &str) -> (Vec<(String, u64)>, Vec<Demand>, Vec<Membership>) {
        let question = read(query).unwrap_or_else(|failure| panic!("{query}: {}", failure.detail));
        let amounts = match question.of {
            Of::Resources(amounts) => amounts.0.iter().map(|(class, n)| (class.to_string(), *n)).collect(),
            Of::Flavor(_) => Vec::new(),
        };
        (amounts, question.traits, question.member_of)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// <https://docs.openstack.org/api-ref/placement/#list-allocation-candidates>: `resources`, `required`, `member_of`.
    #[test]
    fn a_query_is_read_as_placement_reads_it() {
        let any = |traits: &[&str]| Demand::AnyTrait(names(traits));
        let of = |none, aggregates: &[&str]| Membership { none, names: names(aggregates) };
        let (amounts, traits, member_of) = asked(
            "resources=VCPU:2,MEMORY_MB:1024,CUSTOM_GPU:1&required=CUSTOM_A,!CUSTOM_B&required=in:CUSTOM_C,CUSTOM_D\
             &member_of=in:a,b&member_of=!c&member_of=!in:d,e&member_of=f",
        );
        let amount = |class: &str, n| (class.to_owned(), n);
        assert_eq!(amounts, [amount("VCPU", 2), amount("MEMORY_MB", 1024), amount("CUSTOM_GPU", 1)]);
        let forbidden = Demand::NoTrait("CUSTOM_B".to_owned());
        assert_eq!(traits, [any(&["CUSTOM_A"]), forbidden, any(&["CUSTOM_C", "CUSTOM_D"])]);
        let expected = [of(false, &["a", "b"]), of(true, &["c"]), of(true, &["d", "e"]), of(false, &["f"])];
        assert_eq!(member_of, expected);
        assert_eq!(read("flavor=small").unwrap().limit, 100);
        assert_eq!(read("flavor=small&limit=1").unwrap().limit, 1);
    }

    #[test]
    fn a_bad_query_names_the_parameter() {
        for (query, field, says) in [
            ("", "flavor", "name a `flavor`"),
            ("flavor=a&resources=VCPU:1", "resources", "not both"),
            ("resources=", "resources", "CLASS:AMOUNT"),
            ("resources=VCPU", "resources", "CLASS:AMOUNT"),
            ("resources=VCPU:1,", "resources", "CLASS:AMOUNT"),
            ("resources=VCPU:0", "resources", "from 1 to"),
            ("resources=VCPU:-1", "resources", "from 1 to"),
            ("resources=VCPU:1.5", "resources", "from 1 to"),
            ("resources=VCPU:18446744073709551616", "resources", "from 1 to"),
            ("resources=VCPU:1099511627777", "resources", "from 1 to"),
            ("resources=VCPU:1:2", "resources", "from 1 to"),
            ("resources=VCPU:1,VCPU:2", "resources", "twice"),
            ("resources=vcpu:1", "resources", "no resource class"),
            ("resources=GPU:1", "resources", "no resource class"),
            ("resources=:1", "resources", "no resource class"),
            ("resources=PCPU:1", "resources", "hw:cpu_policy"),
            ("flavor=a&required=", "required", "no trait"),
            ("flavor=a&required=A,,B", "required", "no trait"),
            ("flavor=a&required=!", "required", "no trait"),
            ("flavor=a&required=in:", "required", "no trait"),
            ("flavor=a&required=in:A,!B", "required", "no trait"),
            ("flavor=a&required=!in:A", "required", "no trait"),
            ("flavor=a&required=A&required=!A", "required", "both required and forbidden"),
            ("flavor=a&required=in:A,B&required=!A,!B", "required", "both required and forbidden"),
            ("flavor=a&member_of=", "member_of", "no aggregate"),
            ("flavor=a&member_of=a,b", "member_of", "in:A,B"),
            ("flavor=a&member_of=in:a,,b", "member_of", "no aggregate"),
            ("flavor=a&member_of=!!a", "member_of", "no aggregate"),
            ("flavor=a&limit=0", "limit", "must be 1 to 1000"),
            ("flavor=a&limit=1001", "limit", "must be 1 to 1000"),
        ] {
            let Err(failure) = read(query) else { panic!("{query} is taken") };
            assert_eq!(
                (failure.code, failure.field.as_deref()),
                (Code::InvalidQuery, Some(field)),
                "{query}"
            );
            assert!(failure.detail.contains(says), "{query}: {}", failure.detail);
        }
        let many = |n: usize| format!("flavor=a{}", "&required=A".repeat(n));
        assert!(read(&many(64)).is_ok());
        assert_eq!(read(&many(65)).err().and_then(|failure| failure.field).as_deref(), Some("required"));
    }

    #[test]
    fn one_of_several_may_be_forbidden_by_itself() {
        assert_eq!(asked("flavor=a&required=in:A,B&required=!A").1.len(), 2);
    }
}
