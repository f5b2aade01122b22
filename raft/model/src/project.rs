//! Projects: whose VMs, server groups, images and quotas are whose. A project partitions names, quotas and placement
//! rules, not access. Its name never changes, since everything refers to it by name.
//!
//! `default` has always been there: it has a record only once it has a description.

use serde::{Deserialize, Serialize};

use crate::group::ServerGroup;
use crate::id::{ProjectId, Revision, Timestamp};
use crate::image::Image;
use crate::state::State;
use crate::vm::Vm;
use crate::volume::Volume;

/// The project of everything that names none. Its images may be used by all.
pub const DEFAULT: &str = "default";

/// One project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    pub id: ProjectId,
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub created_at: Timestamp,
    pub revision: Revision,
}

impl State {
    /// Whether there is a project of this name.
    pub fn has_project(&self, name: &str) -> bool {
        name == DEFAULT || self.projects.contains_key(name)
    }

    /// A project by id or name.
    pub fn find_project(&self, name_or_id: &str) -> Option<Project> {
        let project = match name_or_id.parse::<ProjectId>() {
            Ok(id) => self.projects.values().find(|project| project.id == id),
            Err(_) => self.projects.get(name_or_id),
        };
        let is_default = || name_or_id == DEFAULT || name_or_id.parse() == Ok(ProjectId::default());
        project.cloned().or_else(|| is_default().then(|| self.default_project()))
    }

    /// As it is without a record: as old as the cluster.
    fn default_project(&self) -> Project {
        Project {
            id: ProjectId::default(),
            name: DEFAULT.to_owned(),
            description: String::new(),
            created_at: self.cluster.as_ref().map(|cluster| cluster.created_at).unwrap_or_default(),
            revision: Revision::default(),
        }
    }

    /// All projects in the order of their names, `default` among them.
    pub fn all_projects(&self) -> Vec<Project> {
        let mut projects: Vec<Project> = self.projects.values().cloned().collect();
        if let Err(at) = projects.binary_search_by(|project| project.name.as_str().cmp(DEFAULT)) {
            projects.insert(at, self.default_project());
        }
        projects
    }

    /// VMs of a project, in the order of their names.
    pub fn vms_of<'a>(&'a self, project: &str) -> impl Iterator<Item = &'a Vm> {
        let from = self.vm_names.range((project.to_owned(), String::new())..);
        let of_project = from.take_while(move |((owner, _), _)| owner == project);
        of_project.filter_map(|(_, id)| self.vms.get(id))
    }

    /// Server groups of a project.
    pub fn groups_of<'a>(&'a self, project: &str) -> impl Iterator<Item = &'a ServerGroup> {
        self.groups.values().filter(move |group| group.project == project)
    }

    /// Volumes of a project.
    pub fn volumes_of<'a>(&'a self, project: &str) -> impl Iterator<Item = &'a Volume> {
        self.volumes.values().filter(move |volume| volume.project == project)
    }

    /// Images of a project.
    pub fn images_of<'a>(&'a self, project: &str) -> impl Iterator<Item = &'a Image> {
        self.images.values().filter(move |image| image.project == project)
    }
}
