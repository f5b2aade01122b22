//! At most so many VMs being built on a host: `max_io_ops_per_host` of the policy, or the least of its aggregates;
//! Nova's `IoOpsFilter` and `AggregateIoOpsFilter`.

use holm_model::feasible::Refusal;
use holm_model::policy::{MAX_IO_OPS, SchedulerPolicy};

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host builds fewer VMs than are allowed.
#[derive(Clone, Copy, Debug)]
pub struct IoOps {
    max: u32,
}

impl IoOps {
    pub fn new(policy: &SchedulerPolicy) -> Self {
        Self { max: policy.max_io_ops_per_host }
    }

    /// Its aggregates' number, else the policy's.
    fn max(&self, host: &Host<'_>) -> u32 {
        host.least(MAX_IO_OPS).unwrap_or(self.max)
    }
}

impl Filter for IoOps {
    fn name(&self) -> &'static str {
        "IoOps"
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        if self.passes(request, host) {
            return Ok(());
        }
        Err(format!("VMs being built: {} here, {} allowed", host.building, self.max(host)))
    }

    fn fix(&self, _request: &Request<'_>, host: &Host<'_>) -> String {
        let more = match host.least(MAX_IO_OPS) {
            Some(_) => "`holm aggregate set AGGREGATE --property max_io_ops_per_host=N`",
            None => "`holm scheduler set --max-io-ops-per-host N`",
        };
        format!("wait, it fits when builds there have ended; or allow more: {more}")
    }

    fn passes(&self, _request: &Request<'_>, host: &Host<'_>) -> bool {
        host.building < self.max(host)
    }
}
