//! Prefers hosts of which nothing is known to be wrong. What keeps new VMs away altogether is `ComputeStatus`.

use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// Conditions of the host, counted against it. Its default multiplier outweighs all that spreads load: a sick host
/// is used when the healthy ones are full.
#[derive(Clone, Copy, Debug)]
pub struct Health;

impl Weigher for Health {
    fn name(&self) -> &'static str {
        "Health"
    }

    fn against(&self) -> bool {
        true
    }

    fn weigh(&self, _request: &Request<'_>, host: &Host<'_>) -> i64 {
        i64::from(host.digest().conditions)
    }
}
