//! The replicated policy, ready to decide with: filters in its order, and every weigher with its
//! multiplier. Built from `State::scheduler` for each decision; it costs a microsecond.

use holm_model::aggregate::Aggregate;
use holm_model::decimal::Decimal;
use holm_model::feasible::Refusal;
use holm_model::policy::{MULTIPLIER_MAX, SchedulerPolicy, multiplier_key};

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;
use crate::{filters, weighers};

/// Filters in the order they are asked, and weighers.
pub struct Policy {
    pub filters: Vec<Box<dyn Filter>>,
    pub weighers: Vec<Weighing>,
    /// A VM that has waited this long gets a host kept for it; 0 keeps none.
    pub reserve_after_ms: u64,
}

/// A weigher and how much it counts.
pub struct Weighing {
    pub weigher: Box<dyn Weigher>,
    /// From the policy, in thousandths.
    multiplier_thousandths: i64,
    /// The aggregate metadata that overrides it: `soft_affinity_weight_multiplier`.
    key: String,
}

impl Default for Policy {
    fn default() -> Self {
        Self::of(&SchedulerPolicy::default())
    }
}

impl Policy {
    pub fn of(policy: &SchedulerPolicy) -> Self {
        let filter = |name: &String| {
            filters::by_name(name, policy).unwrap_or_else(|| Box::new(Unknown { filter: name.clone() }))
        };
        let weighing = |weigher: Box<dyn Weigher>| Weighing {
            multiplier_thousandths: policy.multiplier(weigher.name()).clamp(-MULTIPLIER_MAX, MULTIPLIER_MAX),
            key: multiplier_key(weigher.name()),
            weigher,
        };
        Self {
            filters: policy.filters.iter().map(filter).chain(always()).collect(),
            weighers: weighers::all().into_iter().map(weighing).collect(),
            reserve_after_ms: u64::from(policy.reserve_after_s) * 1000,
        }
    }

    /// How much a weigher counts where no aggregate says otherwise, in thousandths.
    pub fn multiplier_thousandths(&self, weigher: &str) -> i64 {
        let named = self.weighers.iter().find(|weighing| weighing.weigher.name() == weigher);
        named.map_or(0, Weighing::default_multiplier_thousandths)
    }

    /// The filters that could refuse `request` some host, in order.
    pub fn applying(&self, request: &Request<'_>) -> Vec<&dyn Filter> {
        self.filters
            .iter()
            .map(AsRef::as_ref)
            .filter(|filter: &&dyn Filter| filter.applies(request))
            .collect()
    }

    /// Whether every filter passes.
    pub fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        self.filters.iter().all(|filter| !filter.applies(request) || filter.passes(request, host))
    }

    /// The first filter that refuses, by name, and why.
    ///
    /// # Errors
    /// That filter's name and refusal.
    pub fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), (&'static str, Refusal)> {
        let mut applying = self.filters.iter().filter(|filter| filter.applies(request));
        applying
            .try_for_each(|filter| filter.check(request, host).map_err(|refusal| (filter.name(), refusal)))
    }

    /// Every filter that refuses, in the order they are asked, and why.
    pub fn refusals(&self, request: &Request<'_>, host: &Host<'_>) -> Vec<(&'static str, Refusal)> {
        let applying = self.filters.iter().filter(|filter| filter.applies(request));
        applying.filter_map(|filter| Some((filter.name(), filter.check(request, host).err()?))).collect()
    }

    /// The first filter that refuses.
    pub fn refusing(&self, request: &Request<'_>, host: &Host<'_>) -> Option<&dyn Filter> {
        let refuses = |filter: &&dyn Filter| filter.applies(request) && !filter.passes(request, host);
        self.filters.iter().map(AsRef::as_ref).find(refuses)
    }
}

/// `holm_model::policy::ALWAYS`: the last ones, whatever the policy lists.
fn always() -> [Box<dyn Filter>; 3] {
    [Box::new(filters::DedicatedCpu), Box::new(filters::PciDevices), Box::new(filters::Reserved)]
}

impl Weighing {
    /// How much it counts on `host`, in thousandths, negative where the weight counts against it: the least
    /// of its aggregates' overrides, else the policy's. As in Nova, one override that is no number makes
    /// all of that host's void.
    pub fn multiplier_thousandths(&self, host: &Host<'_>) -> i64 {
        let overrides = host.raw_metadata(&self.key).map(|value| Decimal::parse(value.trim()));
        let least = overrides.reduce(|a, b| a.zip(b).map(|(a, b)| a.min(b))).flatten();
        match least.map(|least| least.thousandths(MULTIPLIER_MAX)) {
            Some(multiplier) if self.weigher.against() => -multiplier,
            Some(multiplier) => multiplier,
            None => self.default_multiplier_thousandths(),
        }
    }

    /// How much it counts where no aggregate says otherwise.
    pub fn default_multiplier_thousandths(&self) -> i64 {
        let multiplier = self.multiplier_thousandths;
        if self.weigher.against() { -multiplier } else { multiplier }
    }

    /// Whether `aggregate` says otherwise, in words that may still be void.
    pub fn is_overridden_by(&self, aggregate: &Aggregate) -> bool {
        aggregate.metadata.contains_key(&self.key)
    }
}

/// Stands for a filter that a newer version put into the policy: nothing is placed past a rule that this
/// binary cannot judge.
struct Unknown {
    filter: String,
}

impl Filter for Unknown {
    fn name(&self) -> &'static str {
        "Unknown"
    }

    fn check(&self, _request: &Request<'_>, _host: &Host<'_>) -> Result<(), Refusal> {
        Err(format!("filter `{}`: this version does not know it; upgrade the leader", self.filter))
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        let filter = &self.filter;
        format!("upgrade every node, or do without it: `holm scheduler set --disable {filter}`")
    }
}
