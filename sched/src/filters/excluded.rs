//! A VM is not tried again where building it failed; Nova's `RetryFilter` kept for the VM's whole life in
//! BUILD.

use holm_model::feasible::{self, Refusal};

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The VM did not fail to build here before.
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
        feasible::not_excluded(host.node, request.vm)
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "mend what failed there, then delete it and create it anew; `holm node show NODE` says how that host is".to_owned()
    }
}
