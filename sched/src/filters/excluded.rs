//! A VM that failed to build on a host is not tried there again.

use holm_model::feasible::{self, Refusal};

use crate::filter::{Filter, Host, Request};

/// The VM has not failed to build here.
#[derive(Clone, Copy, Debug)]
pub struct Excluded;

impl Filter for Excluded {
    fn name(&self) -> &'static str {
        "Excluded"
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        feasible::not_excluded(host.node, request.vm)
    }
}
