//! A host kept for a VM that has long waited takes no other beyond what that one would leave over. Not part of
//! the policy's list: `reserve_after_s` there switches it off.

use holm_model::feasible::Refusal;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host is kept for nobody ahead in the queue, or has room beside it.
#[derive(Clone, Copy, Debug)]
pub struct Reserved;

impl Filter for Reserved {
    fn name(&self) -> &'static str {
        "Reserved"
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        host.kept().map_or(Ok(()), |kept| kept.check(host, request))
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "wait, or go before it: create it with a greater `--priority N`; `holm scheduler set --reserve-after-s 0` keeps no hosts".to_owned()
    }

    #[inline]
    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        host.kept().is_none_or(|kept| kept.leaves(host, request))
    }
}
