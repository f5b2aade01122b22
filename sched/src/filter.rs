//! A filter: a hard yes or no for one VM on one host. Those of `holm_model::policy::REQUIRED` only call
//! `holm_model::feasible`, since apply asks the same; the others are policy at decision time and live here.

use holm_model::feasible::Refusal;

use crate::host::Host;
use crate::request::Request;

/// A hard test of a host.
pub trait Filter: Send + Sync {
    /// Shown to users with every refusal; the operator's word for the rule.
    fn name(&self) -> &'static str;

    /// Whether it could refuse any host at all; asked once a request, so that what a VM does not ask for
    /// costs nothing per host.
    fn applies(&self, _request: &Request<'_>) -> bool {
        true
    }

    /// Why `host` will not do: `subject: detail`, where the subject stays the same while numbers change.
    ///
    /// # Errors
    /// The refusal, in words with the numbers that led to it.
    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal>;

    /// What to do next about `host`, which it refuses: a clause with the commands of `holm`, or the options of
    /// `holm vm create`, in backquotes. In these, `NODE` is the host and other capitals are for the reader to fill in.
    /// Hosts whose clauses are the same are told together ([`crate::advice`]).
    fn fix(&self, request: &Request<'_>, host: &Host<'_>) -> String;

    /// Whether `host` will do; the same answer as [`Filter::check`], for filters that refuse often and
    /// whose words cost more than their test.
    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        self.check(request, host).is_ok()
    }

    /// Strikes those out of `left`, indices of `hosts`, that will not do: called through a pointer once a filter,
    /// not once a host.
    fn sieve(&self, request: &Request<'_>, hosts: &[Host<'_>], left: &mut Vec<usize>) {
        left.retain(|at| self.passes(request, &hosts[*at]));
    }
}
