//! Some images run on some nodes and nothing else runs there; Nova's `IsolatedHostsFilter` with
//! `restrict_isolated_hosts_to_isolated_images`, its default. Images and nodes by name or id.

use holm_model::feasible::Refusal;
use holm_model::policy::SchedulerPolicy;

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// Isolated images on isolated nodes, the others on the others.
#[derive(Clone, Debug)]
pub struct IsolatedHosts {
    images: Vec<String>,
    nodes: Vec<String>,
}

impl IsolatedHosts {
    pub fn new(policy: &SchedulerPolicy) -> Self {
        Self { images: policy.isolated_images.clone(), nodes: policy.isolated_nodes.clone() }
    }
}

impl Filter for IsolatedHosts {
    fn name(&self) -> &'static str {
        "IsolatedHosts"
    }

    fn applies(&self, _request: &Request<'_>) -> bool {
        !self.images.is_empty() || !self.nodes.is_empty()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        let named =
            |list: &[String], id: &str, name: &str| list.iter().any(|item| item == id || item == name);
        let image = request.image.map_or("", |image| image.name.as_str());
        let image_isolated = named(&self.images, &request.vm.spec.image.to_string(), image);
        let node_isolated = named(&self.nodes, &host.id().to_string(), &host.node.name);
        match (image_isolated, node_isolated) {
            (true, false) => Err(format!("isolated: image `{image}` runs on isolated nodes only")),
            (false, true) => Err("isolated: the node is for isolated images only".to_owned()),
            _ => Ok(()),
        }
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "`holm scheduler show` has the isolated images and nodes; change them with \
         `holm scheduler set --isolated-images IMAGE,IMAGE` and `holm scheduler set --isolated-nodes NODE,NODE`".to_owned()
    }
}
