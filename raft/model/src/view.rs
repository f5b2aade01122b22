//! Read-only questions to the state.

use crate::flavor::Flavor;
use crate::id::{FlavorId, ImageId, NodeId, VmId};
use crate::image::Image;
use crate::node::Node;
use crate::state::State;
use crate::vm::Vm;

impl State {
    /// A VM by id, or by name within `project`.
    pub fn find_vm(&self, project: &str, name_or_id: &str) -> Option<&Vm> {
        let id = match name_or_id.parse::<VmId>() {
            Ok(id) => id,
            Err(_) => *self.vm_names.get(&(project.to_owned(), name_or_id.to_owned()))?,
        };
        self.vms.get(&id).filter(|vm| vm.project == project)
    }

    /// A node by id or name.
    pub fn find_node(&self, name_or_id: &str) -> Option<&Node> {
        match name_or_id.parse::<NodeId>() {
            Ok(id) => self.nodes.get(&id),
            Err(_) => self.nodes.values().find(|node| node.name == name_or_id),
        }
    }

    /// A flavor by id or name.
    pub fn find_flavor(&self, name_or_id: &str) -> Option<&Flavor> {
        match name_or_id.parse::<FlavorId>() {
            Ok(id) => self.flavors.get(&id),
            Err(_) => self.flavors.values().find(|flavor| flavor.name == name_or_id),
        }
    }

    /// An image by id, or by name within `project`.
    pub fn find_image(&self, project: &str, name_or_id: &str) -> Option<&Image> {
        match name_or_id.parse::<ImageId>() {
            Ok(id) => self.images.get(&id).filter(|image| image.project == project),
            Err(_) => self.images.values().find(|image| image.project == project && image.name == name_or_id),
        }
    }

    /// VMs whose claim is on `node`.
    pub fn vms_on(&self, node: NodeId) -> impl Iterator<Item = &Vm> {
        self.vms_by_node.get(&node).into_iter().flatten().filter_map(|id| self.vms.get(id))
    }

    /// VMs that boot from `image`, or with it as their kernel.
    pub fn users_of_image(&self, image: ImageId) -> impl Iterator<Item = &Vm> {
        self.vms.values().filter(move |vm| vm.spec.image == image || vm.spec.kernel == Some(image))
    }
}
