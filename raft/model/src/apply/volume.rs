//! Shared volumes: their records, and which VM may have which.

use std::collections::BTreeSet;

use super::{Cx, check_expected, invalid, not_found, some_names};
use crate::command::{CreateVolume, DeleteVolume};
use crate::id::VolumeId;
use crate::limits;
use crate::reply::{Kind, Outcome, Reason};
use crate::vm::{Availability, VmSpec};
use crate::volume::{Volume, VolumeLock};

impl Cx<'_> {
    pub(super) fn create_volume(&mut self, c: &CreateVolume) -> Result<Outcome, Reason> {
        limits::name("name", &c.name)?;
        limits::volume_path("path", &c.path)?;
        self.check_project(&self.actor.project)?;
        if c.read_only && c.lock != VolumeLock::None {
            return Err(invalid("lock", "a read-only volume has no writer to lock out; leave `lock` out"));
        }
        if c.lock == VolumeLock::PersistentReservation && !c.path.starts_with("/dev/") {
            return Err(invalid(
                "path",
                "`lock: persistent-reservation` needs a disk; give its path below /dev, as /dev/disk/by-id/…",
            ));
        }
        let volumes = || self.state.volumes.values();
        if volumes().any(|other| other.project == self.actor.project && other.name == c.name) {
            return Err(Reason::NameTaken { kind: Kind::Volume, name: c.name.clone() });
        }
        // Its VMs and those of the other would not know of each other.
        if let Some(other) = volumes().find(|other| other.path == c.path) {
            let told = if other.project == self.actor.project {
                format!("is volume `{}` already; use that one", other.name)
            } else {
                format!("is a volume of project `{}` already, and a volume is one project's", other.project)
            };
            return Err(invalid("path", told));
        }
        if self.state.volumes.contains_key(&c.id) {
            return Err(invalid("id", "is taken"));
        }
        if self.state.volumes.len() >= limits::CATALOG_MAX {
            return Err(Reason::Limit { message: format!("at most {} volumes", limits::CATALOG_MAX) });
        }
        let volume = Volume {
            id: c.id,
            project: self.actor.project.clone(),
            name: c.name.clone(),
            path: c.path.clone(),
            read_only: c.read_only,
            lock: c.lock,
            created_at: self.at,
            revision: self.revision,
        };
        self.state.volumes.insert(c.id, volume);
        self.event(Kind::Volume, c.id, &c.name, "created", "");
        Ok(Outcome::Volume(c.id))
    }

    pub(super) fn delete_volume(&mut self, c: &DeleteVolume) -> Result<Outcome, Reason> {
        let volume = self.state.volumes.get(&c.id).ok_or_else(|| not_found(Kind::Volume, c.id))?;
        check_expected(c.expected, volume.revision)?;
        let name = volume.name.clone();
        let by = some_names(self.state.users_of_volume(c.id).map(|vm| vm.name.as_str()));
        if !by.is_empty() {
            return Err(Reason::InUse { kind: Kind::Volume, name, by });
        }
        self.state.volumes.remove(&c.id);
        self.event(Kind::Volume, c.id, &name, "deleted", "");
        Ok(Outcome::Volume(c.id))
    }

    fn own_volume(&self, id: VolumeId) -> Result<&Volume, Reason> {
        let volume = self.state.volumes.get(&id).filter(|volume| volume.project == self.actor.project);
        volume.ok_or_else(|| not_found(Kind::Volume, id))
    }

    /// The volumes of a VM that is to be created: each is there, and nobody else writes to it.
    pub(super) fn check_volumes(&self, volumes: &[VolumeId]) -> Result<(), Reason> {
        if volumes.len() > limits::VM_VOLUMES_MAX {
            let (are, most) = (volumes.len(), limits::VM_VOLUMES_MAX);
            return Err(invalid("volumes", format!("has {are} entries, at most {most} are allowed")));
        }
        let mut seen = BTreeSet::new();
        for id in volumes {
            let volume = self.own_volume(*id)?;
            if !seen.insert(id) {
                return Err(invalid("volumes", format!("names `{}` twice", volume.name)));
            }
            // Looking for the writer takes as long as there are VMs, but for one that came a moment ago, with the batch.
            if !volume.read_only
                && let Some(other) = self.state.users_of_volume(*id).next_back()
            {
                return Err(Reason::InUse {
                    kind: Kind::Volume,
                    name: volume.name.clone(),
                    by: vec![other.name.clone()],
                });
            }
        }
        Ok(())
    }

    /// FENCING.md, rule 22.
    pub(super) fn check_volume_locks(&self, spec: &VmSpec) -> Result<(), Reason> {
        if spec.availability == Availability::Pinned {
            return Ok(());
        }
        let mut volumes = spec.volumes.iter().filter_map(|id| self.state.volumes.get(id));
        match volumes.find(|volume| volume.is_unguarded()) {
            Some(volume) => Err(invalid(
                "volumes",
                format!(
                    "`availability: failover` needs volumes whose storage keeps the old writer out, and `{}` has \
                     `lock: none`: create it with `lock: persistent-reservation`, or keep the VM pinned",
                    volume.name
                ),
            )),
            None => Ok(()),
        }
    }
}
