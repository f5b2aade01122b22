//! A filter: a hard yes or no for one VM on one host. What it answers must be what apply will say, so
//! every rule is a function of `holm_model::feasible` and a filter only calls it.

use std::borrow::Cow;

use holm_model::feasible::{self, Refusal};
use holm_model::node::Node;
use holm_model::vm::Vm;
use holm_model::{NodeId, Resources};

/// One VM that looks for a host.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Filters and weighers may read its `project`, `spec` and `excluded`, nothing else: VMs equal in
    /// these share their verdicts within a batch (see [`Request::same_shape`]).
    pub vm: &'a Vm,
    /// What it will claim.
    pub claim: Resources,
}

impl<'a> Request<'a> {
    pub fn new(vm: &'a Vm) -> Self {
        Self { vm, claim: feasible::claim_of(&vm.spec) }
    }

    /// Whether every filter and weigher answers the same for both.
    pub fn same_shape(&self, other: &Vm) -> bool {
        self.vm.spec == other.spec && self.vm.excluded == other.excluded && self.vm.project == other.project
    }
}

/// One host as the batch sees it: its record, and its claims with those of the batch so far.
#[derive(Clone, Debug)]
pub struct Host<'a> {
    pub node: &'a Node,
    pub claimed: Cow<'a, Resources>,
}

impl<'a> Host<'a> {
    /// The host as recorded.
    pub fn new(node: &'a Node) -> Self {
        Self { node, claimed: Cow::Borrowed(&node.allocated) }
    }

    pub fn id(&self) -> NodeId {
        self.node.id
    }
}

/// A hard test of a host.
pub trait Filter: Send + Sync {
    /// Shown to users with every refusal; the operator's word for the rule.
    fn name(&self) -> &'static str;

    /// Why `host` will not do.
    ///
    /// # Errors
    /// The refusal, in words with the numbers that led to it.
    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal>;

    /// Whether `host` will do; the same answer as [`Filter::check`], for filters that refuse often and
    /// whose words cost more than their test.
    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        self.check(request, host).is_ok()
    }
}
