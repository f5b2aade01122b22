//! Server groups.

use super::{Cx, check_expected, invalid, not_found, some_names};
use crate::command::{CreateGroup, DeleteGroup, UpdateGroup};
use crate::group::{GroupPolicy, ServerGroup};
use crate::id::GroupId;
use crate::limits;
use crate::reply::{Kind, Outcome, Reason};

impl Cx<'_> {
    pub(super) fn create_group(&mut self, c: &CreateGroup) -> Result<Outcome, Reason> {
        if self.state.groups.contains_key(&c.id) {
            return Err(invalid("id", "is taken"));
        }
        if self.state.groups.len() >= limits::CATALOG_MAX {
            return Err(Reason::Limit { message: format!("at most {} server groups", limits::CATALOG_MAX) });
        }
        self.check_project(&self.actor.project)?;
        let group = ServerGroup {
            id: c.id,
            project: self.actor.project.clone(),
            name: c.name.clone(),
            policy: c.policy,
            max_server_per_host: c.max_server_per_host,
            created_at: self.at,
            revision: self.revision,
        };
        self.check_group(&group)?;
        self.event(Kind::Group, c.id, &c.name, "created", "");
        self.state.groups.insert(c.id, group);
        Ok(Outcome::Group(c.id))
    }

    pub(super) fn update_group(&mut self, c: &UpdateGroup) -> Result<Outcome, Reason> {
        let mut group = self.group(c.id)?;
        check_expected(c.expected, group.revision)?;
        if let Some(name) = c.name.as_ref().filter(|name| **name != group.name) {
            if self.knows(1) {
                self.check_group_unused(&group)?;
            }
            group.name.clone_from(name);
        }
        if c.max_server_per_host.is_some() {
            group.max_server_per_host = c.max_server_per_host;
        }
        group.revision = self.revision;
        self.check_group(&group)?;
        self.event(Kind::Group, c.id, &group.name, "changed", "");
        self.state.groups.insert(c.id, group);
        Ok(Outcome::Group(c.id))
    }

    pub(super) fn delete_group(&mut self, c: &DeleteGroup) -> Result<Outcome, Reason> {
        let group = self.group(c.id)?;
        check_expected(c.expected, group.revision)?;
        self.check_group_unused(&group)?;
        self.state.groups.remove(&c.id);
        self.event(Kind::Group, c.id, &group.name, "deleted", "");
        Ok(Outcome::Group(c.id))
    }

    /// A group that a new VM of the actor's project may join.
    pub(super) fn own_group(&self, id: GroupId) -> Result<ServerGroup, Reason> {
        let group = self.group(id)?;
        if group.project == self.actor.project { Ok(group) } else { Err(not_found(Kind::Group, id)) }
    }

    fn group(&self, id: GroupId) -> Result<ServerGroup, Reason> {
        self.state.groups.get(&id).cloned().ok_or_else(|| not_found(Kind::Group, id))
    }

    /// The name of a group is what people and their files call it by: it stays while a VM is in it.
    fn check_group_unused(&self, group: &ServerGroup) -> Result<(), Reason> {
        let members = self.state.group_members.get(&group.id).into_iter().flatten();
        let by = some_names(members.filter_map(|id| self.state.vms.get(id)).map(|vm| vm.name.as_str()));
        if by.is_empty() {
            return Ok(());
        }
        Err(Reason::InUse { kind: Kind::Group, name: group.name.clone(), by })
    }

    fn check_group(&self, group: &ServerGroup) -> Result<(), Reason> {
        limits::name("name", &group.name)?;
        match (group.policy, group.max_server_per_host) {
            (GroupPolicy::AntiAffinity, Some(0)) => {
                return Err(invalid("max_server_per_host", "must be at least 1"));
            }
            (GroupPolicy::AntiAffinity, _) | (_, None) => {}
            (_, Some(_)) => {
                return Err(invalid("max_server_per_host", "goes with the policy `anti-affinity` only"));
            }
        }
        let taken =
            self.state.groups.values().any(|other| {
                other.id != group.id && other.project == group.project && other.name == group.name
            });
        if taken {
            return Err(Reason::NameTaken { kind: Kind::Group, name: group.name.clone() });
        }
        Ok(())
    }
}
