//! One VM that looks for a host, with what the state says about it: its images, where the rest of its
//! group is, and where the VMs are that it wants near or far.

use std::collections::BTreeMap;

use holm_model::feasible::{self, Members, Refusal};
use holm_model::group::ServerGroup;
use holm_model::image::Image;
use holm_model::parts;
use holm_model::vm::Vm;
use holm_model::{NodeId, ProjectId, Resources, State, VmId};

use crate::host::Wanted;

/// Hosts given to VMs earlier in the same batch; none for those that are to leave theirs.
pub type Placed = BTreeMap<VmId, Option<NodeId>>;

/// What filters and weighers know of a VM. They may read the VM's `project`, `spec` and `excluded`, nothing
/// else of its record: VMs equal in these share their verdicts within a batch (see
/// [`Request::same_shape`]).
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub vm: &'a Vm,
    /// The id of its project.
    pub project: ProjectId,
    /// What it will claim.
    pub claim: Resources,
    /// The same, ready to be compared.
    pub wanted: Wanted,
    /// Parts that it asks for, or why that cannot be read; none where it asks for none.
    pub parts: Option<Result<parts::Wanted, Refusal>>,
    pub image: Option<&'a Image>,
    /// What it boots from, image and kernel.
    pub boots_from: Vec<Held>,
    pub group: Option<Group<'a>>,
    /// The VMs of `same_host`, each with its host if it has one.
    pub same_host: Vec<Mate<'a>>,
    /// The VMs of `different_host` likewise.
    pub different_host: Vec<Mate<'a>>,
}

/// Bytes that some hosts hold.
#[derive(Clone, Debug)]
pub struct Held {
    pub size_bytes: u64,
    /// A bit a node, by id: ids are counted up from 1, and every host is looked up.
    holders: Vec<u64>,
}

impl Held {
    fn of(image: &Image) -> Self {
        let mut holders = Vec::new();
        for holder in &image.holders {
            let (word, bit) = Self::place(*holder);
            if word >= holders.len() {
                holders.resize(word + 1, 0);
            }
            holders[word] |= bit;
        }
        Self { size_bytes: image.size_bytes, holders }
    }

    pub fn is_on(&self, node: NodeId) -> bool {
        let (word, bit) = Self::place(node);
        self.holders.get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn place(node: NodeId) -> (usize, u64) {
        ((node.0 / 64) as usize, 1 << (node.0 % 64))
    }
}

/// A VM that was named in a request.
#[derive(Clone, Copy, Debug)]
pub struct Mate<'a> {
    /// None of one that was deleted.
    pub name: Option<&'a str>,
    pub node: Option<NodeId>,
}

impl Mate<'_> {
    /// Its name, quoted, or that it is gone.
    pub fn words(&self) -> String {
        self.name.map_or_else(|| "a VM that was deleted".to_owned(), |name| format!("`{name}`"))
    }
}

/// A server group and where its other members are.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    pub record: &'a ServerGroup,
    placed: u32,
    by_node: BTreeMap<NodeId, u32>,
}

impl<'a> Group<'a> {
    fn of(state: &'a State, placed: &Placed, vm: &Vm) -> Option<Self> {
        let record = state.groups.get(&vm.spec.scheduling.group?)?;
        let mut group = Self { record, placed: 0, by_node: BTreeMap::new() };
        let members = state.group_members.get(&record.id).into_iter().flatten();
        members
            .filter(|id| **id != vm.id)
            .filter_map(|id| node_of(state, placed, id))
            .for_each(|node| group.add(node));
        Some(group)
    }

    /// A member was placed.
    pub fn add(&mut self, node: NodeId) {
        self.placed += 1;
        *self.by_node.entry(node).or_default() += 1;
    }

    /// The other members, seen from `node`.
    pub fn members(&self, node: NodeId) -> Members {
        Members { here: self.by_node.get(&node).copied().unwrap_or(0), placed: self.placed }
    }
}

impl<'a> Request<'a> {
    /// What `state` says about `vm`, with the VMs of the batch where it put them.
    pub fn new(state: &'a State, placed: &Placed, vm: &'a Vm) -> Self {
        let mates = |ids: &'a std::collections::BTreeSet<VmId>| {
            let mate = |id| Mate {
                name: state.vms.get(id).map(|mate| mate.name.as_str()),
                node: node_of(state, placed, id),
            };
            ids.iter().map(mate).collect()
        };
        let spec = &vm.spec;
        let claim = feasible::claim_of(spec);
        Self {
            vm,
            // `default` needs no record.
            project: state.projects.get(&vm.project).map(|project| project.id).unwrap_or_default(),
            wanted: Wanted::of(&claim),
            claim,
            parts: parts::asks(spec).then(|| parts::Wanted::of(spec)),
            image: state.images.get(&spec.image),
            boots_from: std::iter::once(&spec.image)
                .chain(&spec.kernel)
                .filter_map(|image| state.images.get(image))
                .map(Held::of)
                .collect(),
            group: Group::of(state, placed, vm),
            same_host: mates(&spec.scheduling.same_host),
            different_host: mates(&spec.scheduling.different_host),
        }
    }

    /// Whether every filter and weigher answers the same for both.
    pub fn same_shape(&self, other: &Vm) -> bool {
        same_shape(self.vm, other)
    }

    /// Whether it names `vm` as one to be with or apart from.
    pub fn names(&self, vm: VmId) -> bool {
        let scheduling = &self.vm.spec.scheduling;
        scheduling.same_host.contains(&vm) || scheduling.different_host.contains(&vm)
    }
}

/// Whether every filter and weigher answers the same for both, as far as hosts go.
pub fn same_shape(one: &Vm, other: &Vm) -> bool {
    one.spec.image == other.spec.image
        && one.spec.size == other.spec.size
        && one.spec == other.spec
        && one.excluded == other.excluded
        && one.recovery.tried_before == other.recovery.tried_before
        && one.project == other.project
}

fn node_of(state: &State, placed: &Placed, vm: &VmId) -> Option<NodeId> {
    let recorded = || state.vms.get(vm)?.claim.as_ref().map(|claim| claim.node);
    placed.get(vm).copied().unwrap_or_else(recorded)
}
