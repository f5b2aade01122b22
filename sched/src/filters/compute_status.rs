//! Nothing is placed on a host that is down, cordoned or has not said what it has; Nova's
//! `ComputeFilter`.

use holm_model::feasible::{self, Refusal};

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// The host is up, enabled, has reported, and its hypervisor can work.
#[derive(Clone, Copy, Debug)]
pub struct ComputeStatus;

impl Filter for ComputeStatus {
    fn name(&self) -> &'static str {
        "ComputeStatus"
    }

    fn check(&self, _request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        feasible::compute_status(host.node)
    }

    fn fix(&self, _request: &Request<'_>, host: &Host<'_>) -> String {
        let node = host.node;
        if !node.up {
            return match node.report {
                Some(_) => {
                    "bring it back (`holm node show NODE` says since when it is silent); one that is gone for good: \
                     `holm node remove NODE --confirm-node-off`"
                }
                None => "start its daemon; once it has reported, it takes VMs",
            }
            .to_owned();
        }
        let fix = if node.fence.is_some() {
            "wait until its daemon has cleared up; `holm node show NODE` says what is left"
        } else if node.maintenance.is_some() {
            "end its maintenance when the work is done: `holm node maintenance NODE off`"
        } else if !node.enabled {
            "open it again: `holm node uncordon NODE`"
        } else {
            "mend it on that host; once it reports that it is well, it takes VMs: `holm node show NODE`"
        };
        fix.to_owned()
    }

    #[inline]
    fn passes(&self, _request: &Request<'_>, host: &Host<'_>) -> bool {
        host.digest().has_status
    }
}
