//! At most so many VMs on a host: `max_instances_per_host` of the policy, or the least of its aggregates; Nova's
//! `NumInstancesFilter` and `AggregateNumInstancesFilter`.

use holm_model::feasible::Refusal;
use holm_model::policy::{MAX_INSTANCES, SchedulerPolicy};

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

    /// Its aggregates' number, else the policy's.
    fn max(&self, host: &Host<'_>) -> u32 {
        host.least(MAX_INSTANCES).unwrap_or(self.max)
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
        Err(format!("VMs: {} here, {} allowed", host.digest().vms, self.max(host)))
    }

    fn fix(&self, _request: &Request<'_>, host: &Host<'_>) -> String {
        let more = match host.least(MAX_INSTANCES) {
            Some(_) => "`holm aggregate set AGGREGATE --property max_instances_per_host=N`",
            None => "`holm scheduler set --max-instances-per-host N`",
        };
        format!("move or delete VMs (`holm vm list --node NODE`); or allow more: {more}")
    }

    fn passes(&self, _request: &Request<'_>, host: &Host<'_>) -> bool {
        host.digest().vms < self.max(host)
    }
}
