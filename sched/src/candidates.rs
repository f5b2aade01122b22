//! What a question about hosts asks beside a VM's own record, as in Placement's query for allocation candidates: any of
//! some traits, and members of aggregates or none of these. Each demand is a filter that holds for this question only,
//! so that candidates are judged and explained like the hosts of any VM. Semantics are those of Placement
//! (`GET /allocation_candidates`, <https://docs.openstack.org/api-ref/placement/#list-allocation-candidates>): every
//! demand must be met.

use std::collections::BTreeSet;

use holm_model::NodeId;
use holm_model::aggregate::Aggregate;
use holm_model::feasible::Refusal;

use crate::filter::Filter;
use crate::filters;
use crate::host::Host;
use crate::policy::Policy;
use crate::request::Request;

/// One demand on hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// `required=in:A,B`; of a single trait, `required=A`.
    AnyTrait(Vec<String>),
    /// `required=!A`.
    NoTrait(String),
    /// `member_of=in:A,B`, or of a single one.
    AnyAggregate(Members),
    /// `member_of=!in:A,B`, or of a single one.
    NoAggregate(Members),
}

/// Aggregates, and the hosts that are in any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    names: Vec<String>,
    nodes: BTreeSet<NodeId>,
}

impl<'a> FromIterator<&'a Aggregate> for Members {
    fn from_iter<I: IntoIterator<Item = &'a Aggregate>>(aggregates: I) -> Self {
        let mut members = Self::default();
        for aggregate in aggregates {
            members.names.push(aggregate.name.clone());
            members.nodes.extend(aggregate.nodes.iter().copied());
        }
        members
    }
}

impl Policy {
    /// The same policy, which also makes these demands. They come just before `Capacity`, so that who lacks a trait is
    /// told so first.
    pub fn demanding(mut self, demands: impl IntoIterator<Item = Demand>) -> Self {
        let capacity = self.filters.iter().position(|filter| filter.name() == filters::Capacity.name());
        let at = capacity.unwrap_or(self.filters.len());
        let demands: Vec<Box<dyn Filter>> = demands.into_iter().map(|demand| Box::new(demand) as _).collect();
        self.filters.splice(at..at, demands);
        self
    }
}

impl Filter for Demand {
    fn name(&self) -> &'static str {
        match self {
            Self::AnyTrait(_) | Self::NoTrait(_) => "Traits",
            Self::AnyAggregate(_) | Self::NoAggregate(_) => "MemberOf",
        }
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        if self.passes(request, host) {
            return Ok(());
        }
        Err(match self {
            Self::AnyTrait(traits) => match traits.as_slice() {
                [only] => format!("trait `{only}`: required, the node lacks it"),
                any => format!("traits: one of {} required, the node has none", quoted(any)),
            },
            Self::NoTrait(name) => format!("trait `{name}`: forbidden, the node has it"),
            Self::AnyAggregate(members) => match members.names.as_slice() {
                [only] => format!("aggregate `{only}`: the node is not in it"),
                any => format!("aggregates: the node is in none of {}", quoted(any)),
            },
            Self::NoAggregate(members) => match members.names.as_slice() {
                [only] => format!("aggregate `{only}`: the node is in it"),
                any => format!("aggregates: the node is in one of {}", quoted(any)),
            },
        })
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        match self {
            Self::AnyTrait(traits) => {
                let name = traits.first().map_or("TRAIT", String::as_str);
                format!("if the node has it: `holm node trait NODE {name}`; or ask without it")
            }
            Self::NoTrait(_) => "ask without forbidding it".to_owned(),
            Self::AnyAggregate(members) => {
                let name = members.names.first().map_or("AGGREGATE", String::as_str);
                format!("`holm aggregate add-node {name} NODE`; or ask without it")
            }
            Self::NoAggregate(_) => "ask without ruling the aggregate out".to_owned(),
        }
    }

    fn passes(&self, _request: &Request<'_>, host: &Host<'_>) -> bool {
        match self {
            Self::AnyTrait(traits) => traits.iter().any(|name| host.node.has_trait(name)),
            Self::NoTrait(name) => !host.node.has_trait(name),
            Self::AnyAggregate(members) => members.nodes.contains(&host.id()),
            Self::NoAggregate(members) => !members.nodes.contains(&host.id()),
        }
    }
}

fn quoted(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
