//! Some images run on some nodes only and, unless the policy says otherwise, nothing else runs there; Nova's
//! `IsolatedHostsFilter` with its `restrict_isolated_hosts_to_isolated_images`.

use std::collections::BTreeSet;
use std::str::FromStr;

use holm_model::feasible::Refusal;
use holm_model::policy::SchedulerPolicy;
use holm_model::{ImageId, NodeId};

use crate::filter::Filter;
use crate::host::Host;
use crate::request::Request;

/// Isolated images on isolated nodes, the others on the others.
#[derive(Clone, Debug)]
pub struct IsolatedHosts {
    images: Listed<ImageId>,
    nodes: Listed<NodeId>,
    restrict: bool,
}

/// A list of the policy, each item read once, since every host is looked up: an id where it reads as one, as
/// `SchedulerPolicy::isolates_image` has it, else a name.
#[derive(Clone, Debug)]
struct Listed<Id> {
    ids: BTreeSet<Id>,
    names: BTreeSet<String>,
}

impl<Id: FromStr + Ord> Listed<Id> {
    fn of(items: &[String]) -> Self {
        let mut listed = Self { ids: BTreeSet::new(), names: BTreeSet::new() };
        for item in items {
            _ = match item.parse() {
                Ok(id) => listed.ids.insert(id),
                Err(_) => listed.names.insert(item.clone()),
            };
        }
        listed
    }

    fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.names.is_empty()
    }

    fn has(&self, id: Id, name: &str) -> bool {
        self.ids.contains(&id) || self.names.contains(name)
    }
}

impl IsolatedHosts {
    pub fn new(policy: &SchedulerPolicy) -> Self {
        Self {
            images: Listed::of(&policy.isolated_images),
            nodes: Listed::of(&policy.isolated_nodes),
            restrict: policy.restrict_isolated_hosts_to_isolated_images,
        }
    }

    fn isolates_image(&self, request: &Request<'_>) -> bool {
        self.images.has(request.vm.spec.image, image_name(request))
    }

    /// Whether `host` takes an image that is isolated or not.
    fn takes(&self, image_isolated: bool, host: &Host<'_>) -> bool {
        let node_isolated = self.nodes.has(host.id(), &host.node.name);
        image_isolated == node_isolated || (node_isolated && !self.restrict)
    }
}

fn image_name<'a>(request: &Request<'a>) -> &'a str {
    request.image.map_or("", |image| image.name.as_str())
}

impl Filter for IsolatedHosts {
    fn name(&self) -> &'static str {
        "IsolatedHosts"
    }

    fn applies(&self, _request: &Request<'_>) -> bool {
        !self.images.is_empty() || !self.nodes.is_empty()
    }

    fn check(&self, request: &Request<'_>, host: &Host<'_>) -> Result<(), Refusal> {
        let image_isolated = self.isolates_image(request);
        if self.takes(image_isolated, host) {
            return Ok(());
        }
        Err(if image_isolated {
            format!("isolated: image `{}` runs on isolated nodes only", image_name(request))
        } else {
            "isolated: the node is for isolated images only".to_owned()
        })
    }

    fn fix(&self, _request: &Request<'_>, _host: &Host<'_>) -> String {
        "`holm scheduler show` has the isolated images and nodes; change them with \
         `holm scheduler set --isolated-images IMAGE,IMAGE` and `holm scheduler set --isolated-nodes NODE,NODE`".to_owned()
    }
    fn sieve(&self, request: &Request<'_>, hosts: &[Host<'_>], left: &mut Vec<usize>) {
        let image_isolated = self.isolates_image(request);
        left.retain(|at| self.takes(image_isolated, &hosts[*at]));
    }
}
