//! Projects.

use super::{Cx, check_expected, invalid, not_found, some_names};
use crate::command::{CreateProject, DeleteProject, UpdateProject};
use crate::id::ProjectId;
use crate::limits;
use crate::project::{DEFAULT, Project};
use crate::reply::{Kind, Outcome, Reason};

impl Cx<'_> {
    pub(super) fn create_project(&mut self, c: &CreateProject) -> Result<Outcome, Reason> {
        limits::name("name", &c.name)?;
        limits::text("description", &c.description, limits::MESSAGE_MAX)?;
        if self.state.has_project(&c.name) {
            return Err(Reason::NameTaken { kind: Kind::Project, name: c.name.clone() });
        }
        if self.state.find_project(&c.id.to_string()).is_some() {
            return Err(invalid("id", "is taken"));
        }
        if self.state.projects.len() >= limits::CATALOG_MAX {
            return Err(Reason::Limit { message: format!("at most {} projects", limits::CATALOG_MAX) });
        }
        self.put_project(
            "created",
            Project {
                id: c.id,
                name: c.name.clone(),
                description: c.description.clone(),
                created_at: self.at,
                revision: self.revision,
            },
        )
    }

    pub(super) fn update_project(&mut self, c: &UpdateProject) -> Result<Outcome, Reason> {
        let project = self.project(c.id)?;
        check_expected(c.expected, project.revision)?;
        limits::text("description", &c.description, limits::MESSAGE_MAX)?;
        let description = c.description.clone();
        self.put_project("changed", Project { description, revision: self.revision, ..project })
    }

    pub(super) fn delete_project(&mut self, c: &DeleteProject) -> Result<Outcome, Reason> {
        let project = self.project(c.id)?;
        check_expected(c.expected, project.revision)?;
        let name = project.name;
        if name == DEFAULT {
            return Err(invalid("project", "`default` is the project of all that names none; it stays"));
        }
        let by = self.users_of_project(&name);
        if !by.is_empty() {
            return Err(Reason::InUse { kind: Kind::Project, name, by });
        }
        self.state.projects.remove(&name);
        self.event(Kind::Project, c.id, &name, "deleted", "");
        Ok(Outcome::Project(c.id))
    }

    /// Whose project it is must exist when something new is to belong to it.
    pub(super) fn check_project(&self, name: &str) -> Result<(), Reason> {
        if self.state.has_project(name) { Ok(()) } else { Err(not_found(Kind::Project, name)) }
    }

    fn project(&self, id: ProjectId) -> Result<Project, Reason> {
        self.state.find_project(&id.to_string()).ok_or_else(|| not_found(Kind::Project, id))
    }

    fn put_project(&mut self, what: &str, project: Project) -> Result<Outcome, Reason> {
        let id = project.id;
        self.event(Kind::Project, id, &project.name, what, "");
        self.state.projects.insert(project.name.clone(), project);
        Ok(Outcome::Project(id))
    }

    fn users_of_project(&self, name: &str) -> Vec<String> {
        let vms = self.state.vms_of(name).map(|vm| format!("VM {}", vm.name));
        let groups = self.state.groups_of(name).map(|group| format!("server group {}", group.name));
        let images = self.state.images_of(name).map(|image| format!("image {}", image.name));
        let volumes = self.state.volumes_of(name).map(|volume| format!("volume {}", volume.name));
        let quota = self.state.quotas.contains_key(name).then(|| "its quota".to_owned());
        let users: Vec<String> = vms.chain(groups).chain(images).chain(volumes).chain(quota).collect();
        some_names(users.iter().map(String::as_str))
    }
}
