//! Avoids hosts with `PreferNoSchedule` taints that the VM does not tolerate, as Kubernetes scores them.

use holm_model::scheduling::Effect;

use crate::filters::taints::untolerated;
use crate::host::Host;
use crate::request::Request;
use crate::weigher::Weigher;

/// Such taints, counted against the host.
#[derive(Clone, Copy, Debug)]
pub struct PreferNoSchedule;

impl Weigher for PreferNoSchedule {
    fn name(&self) -> &'static str {
        "PreferNoSchedule"
    }

    fn against(&self) -> bool {
        true
    }

    fn floor(&self) -> Option<i64> {
        Some(0)
    }

    fn weigh(&self, request: &Request<'_>, host: &Host<'_>) -> i64 {
        let all = host.digest().prefer_no_schedule;
        if all == 0 || request.vm.spec.scheduling.tolerations.is_empty() {
            return i64::from(all);
        }
        i64::try_from(untolerated(request, host, Effect::PreferNoSchedule).count()).unwrap_or(i64::MAX)
    }
}
