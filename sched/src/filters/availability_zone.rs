//! A VM that asks for a zone gets a host in it; Nova's `AvailabilityZoneFilter`.

use holm_model::feasible::Refusal;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host is in the zone that was asked for, if one was.
#[derive(Clone, Copy, Debug)]
pub struct AvailabilityZone;

impl Filter for AvailabilityZone {
    fn name(&self) -> &'static str {
        "AvailabilityZone"
    }

    fn applies(&self, request: &Request<'_>) -> bool {
        request.vm.spec.scheduling.availability_zone.is_some()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        match &request.vm.spec.scheduling.availability_zone {
            Some(wanted) if wanted != host.zone() => {
                Err(format!("zone: `{wanted}` wanted, the node is in `{}`", host.zone()))
            }
            _ => Ok(()),
        }
    }

    fn fix(&self, _request: &Request<'_>, host: &Host<'_>) -> String {
        format!(
            "ask for `--az {}` or for none; or put the node into the other zone: `holm aggregate add-node AGGREGATE \
             NODE` (`holm az list` names the zones' aggregates)",
            host.zone()
        )
    }

    fn passes(&self, request: &Request<'_>, host: &Host<'_>) -> bool {
        let wanted = request.vm.spec.scheduling.availability_zone.as_deref();
        wanted.is_none_or(|wanted| wanted == host.zone())
    }
}
