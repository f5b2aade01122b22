//! CPUs of its own for a VM whose flavor says `hw:cpu_policy=dedicated`, of one NUMA node where they fit one (always,
//! with `hw:numa_nodes=1`); what Nova does with `PCPU` and its `NUMATopologyFilter`. Apply asks the same rule.

use holm_model::feasible::{self, Refusal};

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host has so many CPUs that no VM holds.
#[derive(Clone, Copy, Debug)]
pub struct DedicatedCpu;

impl Filter for DedicatedCpu {
    fn name(&self) -> &'static str {
        "DedicatedCpu"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        request.parts.is_some()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        match feasible::parts_for(host.node, host.parts(), request.vm) {
            Err((by, refusal)) if by == self.name() => Err(refusal),
            _ => Ok(()),
        }
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "fewer vCPUs, or no `hw:numa_nodes`, in the flavor (`holm flavor create`); or set more CPUs apart there: \
         `[cpu] dedicated` in the configuration of its `holmd`".to_owned()
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        match &request.parts {
            Some(Ok(wanted)) => host.digest().parts.has_cpus(wanted),
            Some(Err(_)) => false,
            None => true,
        }
    }
}
