//! Avoids hosts where builds failed since the last one that succeeded.

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// Failed builds in a row, counted against the host, Nova's `BuildFailureWeigher`.
#[derive(Clone, Copy, Debug)]
pub struct BuildFailure;

impl Weigher for BuildFailure {
    fn name(&self) -> &'static str {
        "BuildFailure"
    }

    fn against(&self) -> bool {
        true
    }

    fn weigh(&self, _request: &Request<'_>, host: &Host<'_>) -> i64 {
        i64::from(host.digest().failed_builds)
    }
}
