//! A VM is not tried again where building it failed, nor elsewhere once it failed on three hosts (Nova's
//! `max_attempts`), until it is started by hand or, of one that lost its node, a pause has passed; Nova's `RetryFilter`
//! kept beyond one request.

use holm_model::feasible::{self, Refusal};

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The VM did not fail to build here since it was last tried everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Excluded;

impl Filter for Excluded {
    fn name(&self) -> &'static str {
        "Excluded"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        !request.vm.excluded.is_empty()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        feasible::not_excluded(host.node, request.vm)?;
        feasible::has_tries_left(request.vm)
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "mend what failed there, then `holm vm start NAME`; one that lost its node is tried again by itself"
            .to_owned()
    }
}
