//! Aggregates kept for some projects: keys of the metadata that begin with `filter_tenant_id` hold their names or ids,
//! separated by commas; Nova's `AggregateMultiTenancyIsolation`. Those projects may still use hosts outside.

use holm_model::feasible::Refusal;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// Several keys, since one value is bounded: `filter_tenant_id`, `filter_tenant_id2` …
const KEYS: &str = "filter_tenant_id";

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
        let (project, tenants) = (&request.vm.project, host.metadata_of_keys(KEYS).collect::<Vec<_>>());
        Err(format!("project `{project}`: its aggregates are for {} only", tenants.join(", ")))
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "let the project in: `holm aggregate set AGGREGATE --property filter_tenant_id=PROJECT,PROJECT`; \
         `holm aggregate list` names the aggregates of the node"
            .to_owned()
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        let is_it = |tenant: &str| tenant == request.vm.project || tenant.parse() == Ok(request.project);
        let mut tenants = host.metadata_of_keys(KEYS).peekable();
        tenants.peek().is_none() || tenants.any(is_it)
    }
}
