//! At most so many VMs on a host, the policy's `max_instances_per_host`; Nova's `NumInstancesFilter`.

use holm_model::feasible::Refusal;
use holm_model::policy::SchedulerPolicy;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host has fewer VMs than are allowed.
#[derive(Clone, Copy, Debug)]
pub struct NumInstances {
    max: u32,
}

impl NumInstances {
    pub fn new(policy: &SchedulerPolicy) -> Self {
        Self { max: policy.max_instances_per_host }
    }
}

impl Filter for NumInstances {
    fn name(&self) -> &'static str {
        "NumInstances"
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        if self.passes(request, host) {
            return Ok(());
        }
        Err(format!("VMs: {} here, {} allowed", host.vms, self.max))
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "move or delete VMs (`holm vm list --node NODE`); or allow more: `holm scheduler set --max-instances-per-host N`".to_owned()
    }

    fn passes(&self, _request: &Request<'_>, host: &Host<'_>) -> bool {
        host.vms < self.max
    }
}
