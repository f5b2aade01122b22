//! Aggregates kept for some projects: `filter_tenant_id` in the metadata names them, separated by commas;
//! Nova's `AggregateMultiTenancyIsolation`. Those projects may still use hosts outside.

use holm_model::feasible::Refusal;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

const KEY: &str = "filter_tenant_id";

/// The VM's project may use the host.
#[derive(Clone, Copy, Debug)]
pub struct AggregateMultiTenancyIsolation;

impl Filter for AggregateMultiTenancyIsolation {
    fn name(&self) -> &'static str {
        "AggregateMultiTenancyIsolation"
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        if self.passes(request, host) {
            return Ok(());
        }
        let (project, tenants) = (&request.vm.project, host.metadata(KEY).collect::<Vec<_>>());
        Err(format!("project `{project}`: its aggregates are for {} only", tenants.join(", ")))
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "let the project in: `holm aggregate set AGGREGATE --property filter_tenant_id=PROJECT,PROJECT`; \
         `holm aggregate list` names the aggregates of the node"
            .to_owned()
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        let mut tenants = host.metadata(KEY).peekable();
        tenants.peek().is_none() || tenants.any(|tenant| tenant == request.vm.project)
    }
}
