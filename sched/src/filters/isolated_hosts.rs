//! Some images run on some nodes only and, unless the policy says otherwise, nothing else runs there; Nova's
//! `IsolatedHostsFilter` with its `restrict_isolated_hosts_to_isolated_images`.

use holm_model::feasible::Refusal;
use holm_model::policy::SchedulerPolicy;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// Isolated images on isolated nodes, the others on the others.
#[derive(Clone, Debug)]
pub struct IsolatedHosts {
    policy: SchedulerPolicy,
}

impl IsolatedHosts {
    pub fn new(policy: &SchedulerPolicy) -> Self {
        Self { policy: policy.clone() }
    }
}

impl Filter for IsolatedHosts {
    fn name(&self) -> &'static str {
        "IsolatedHosts"
    }

    fn applies(&self, _request: &Request<'_>) -> bool {
        !self.policy.isolated_images.is_empty() || !self.policy.isolated_nodes.is_empty()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        let image = request.image.map_or("", |image| image.name.as_str());
        let image_isolated = self.policy.isolates_image(request.vm.spec.image, image);
        let node_isolated = self.policy.isolates_node(host.id(), &host.node.name);
        match (image_isolated, node_isolated) {
            (true, false) => Err(format!("isolated: image `{image}` runs on isolated nodes only")),
            (false, true) if self.policy.restrict_isolated_hosts_to_isolated_images => {
                Err("isolated: the node is for isolated images only".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "`holm scheduler show` has the isolated images and nodes; change them with \
         `holm scheduler set --isolated-images IMAGE,IMAGE` and `holm scheduler set --isolated-nodes NODE,NODE`".to_owned()
    }
}
