//! Read-only questions to the state.

use std::collections::{BTreeMap, BTreeSet};

use imbl::ordmap::DiffItem;

use crate::aggregate::{Aggregate, DEFAULT_ZONE};
use crate::flavor::Flavor;
use crate::group::ServerGroup;
use crate::id::{AggregateId, FlavorId, GroupId, ImageId, NodeId, VmId, VolumeId};
use crate::image::Image;
use crate::node::Node;
use crate::project::DEFAULT;
use crate::resources::{Inventory, ResourceClass};
use crate::state::State;
use crate::vm::Vm;
use crate::volume::Volume;

impl State {
    /// A VM by id, of any project, or by name within `project`.
    pub fn find_vm(&self, project: &str, name_or_id: &str) -> Option<&Vm> {
        let id = match name_or_id.parse::<VmId>() {
            Ok(id) => id,
            Err(_) => *self.vm_names.get(&(project.to_owned(), name_or_id.to_owned()))?,
        };
        self.vms.get(&id)
    }

    /// VMs that are not as they were in `before`, as they were and are; cheap where that state is an earlier one of this.
    pub fn vms_changed_since<'a>(
        &'a self,
        before: &'a State,
    ) -> impl Iterator<Item = (Option<&'a Vm>, Option<&'a Vm>)> {
        before.vms.diff(&self.vms).map(|change| match change {
            DiffItem::Add(_, now) => (None, Some(now)),
            DiffItem::Update { old, new } => (Some(old.1), Some(new.1)),
            DiffItem::Remove(_, before) => (Some(before), None),
        })
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

    /// An image by id, of any project, or by name within `project`.
    pub fn find_image(&self, project: &str, name_or_id: &str) -> Option<&Image> {
        match name_or_id.parse::<ImageId>() {
            Ok(id) => self.images.get(&id),
            Err(_) => self.images_of(project).find(|image| image.name == name_or_id),
        }
    }

    /// An image that VMs of `project` may boot from, by id or name: its own, or one of `default`, which all share.
    pub fn find_usable_image(&self, project: &str, name_or_id: &str) -> Option<&Image> {
        let image = self.find_image(project, name_or_id).or_else(|| self.find_image(DEFAULT, name_or_id));
        image.filter(|image| image.is_usable_by(project))
    }

    /// An aggregate by id or name.
    pub fn find_aggregate(&self, name_or_id: &str) -> Option<&Aggregate> {
        match name_or_id.parse::<AggregateId>() {
            Ok(id) => self.aggregates.get(&id),
            Err(_) => self.aggregates.values().find(|aggregate| aggregate.name == name_or_id),
        }
    }

    /// A server group by id, of any project, or by name within `project`.
    pub fn find_group(&self, project: &str, name_or_id: &str) -> Option<&ServerGroup> {
        match name_or_id.parse::<GroupId>() {
            Ok(id) => self.groups.get(&id),
            Err(_) => self.groups_of(project).find(|group| group.name == name_or_id),
        }
    }

    /// A volume by id, of any project, or by name within `project`.
    pub fn find_volume(&self, project: &str, name_or_id: &str) -> Option<&Volume> {
        match name_or_id.parse::<VolumeId>() {
            Ok(id) => self.volumes.get(&id),
            Err(_) => self.volumes_of(project).find(|volume| volume.name == name_or_id),
        }
    }

    /// The availability zone of a node.
    pub fn zone_of(&self, node: NodeId) -> &str {
        let mut zones = self.aggregates.values().filter(|aggregate| aggregate.nodes.contains(&node));
        zones.find_map(Aggregate::zone).unwrap_or(DEFAULT_ZONE)
    }

    /// The zone a node would have without one aggregate.
    pub(crate) fn zone_without(&self, node: NodeId, aggregate: AggregateId) -> Option<&str> {
        let mut others =
            self.aggregates.values().filter(|other| other.id != aggregate && other.nodes.contains(&node));
        others.find_map(Aggregate::zone)
    }

    /// What a node offers: its report, under the overrides of its aggregates in the order of their ids,
    /// under its own. Kept in the node's record by apply.
    pub fn inventory_of(&self, node: NodeId) -> BTreeMap<ResourceClass, Inventory> {
        let Some(node) = self.nodes.get(&node) else { return BTreeMap::new() };
        let mut inventory = node.report.as_ref().map(|report| report.inventory.clone()).unwrap_or_default();
        let aggregates = self.aggregates.values().filter(|aggregate| aggregate.nodes.contains(&node.id));
        let overrides =
            aggregates.flat_map(|aggregate| &aggregate.inventory).chain(&node.inventory_overrides);
        // Who says that there is more says that one VM may get more, unless it is said how much.
        let bounded = inventory.iter().filter(|(_, reported)| reported.is_bounded_by_total());
        let mut follow_total: BTreeSet<ResourceClass> = bounded.map(|(class, _)| class.clone()).collect();
        for (class, change) in overrides {
            change.over(inventory.entry(class.clone()).or_insert_with(|| Inventory::of(0)));
            if change.max_unit.is_some() {
                follow_total.remove(class);
            }
        }
        for (_, inventory) in inventory.iter_mut().filter(|(class, _)| follow_total.contains(class)) {
            inventory.max_unit = inventory.total.max(1);
        }
        inventory
    }

    /// VMs whose claim is on `node`.
    pub fn vms_on(&self, node: NodeId) -> impl Iterator<Item = &Vm> {
        self.vms_by_node.get(&node).into_iter().flatten().filter_map(|id| self.vms.get(id))
    }

    /// VMs that boot from `image`, or with it as their kernel.
    pub fn users_of_image(&self, image: ImageId) -> impl Iterator<Item = &Vm> {
        self.vms.values().filter(move |vm| vm.spec.image == image || vm.spec.kernel == Some(image))
    }

    /// VMs that have `volume`.
    pub fn users_of_volume(&self, volume: VolumeId) -> impl DoubleEndedIterator<Item = &Vm> {
        self.vms.values().filter(move |vm| vm.spec.volumes.contains(&volume))
    }
}
