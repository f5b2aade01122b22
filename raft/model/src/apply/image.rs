//! Images: the record, and who holds the bytes.

use imbl::OrdSet;

use super::{Cx, check_expected, invalid, not_found, some_names};
use crate::command::{CreateImage, DeleteImage, ReportImage};
use crate::extra_specs;
use crate::image::Image;
use crate::limits;
use crate::reply::{Kind, Outcome, Reason};

impl Cx<'_> {
    pub(super) fn create_image(&mut self, c: &CreateImage) -> Result<Outcome, Reason> {
        limits::name("name", &c.name)?;
        if c.size_bytes == 0 {
            return Err(invalid("size_bytes", "the image is empty"));
        }
        let hex = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        if c.sha256.len() != 64 || !c.sha256.bytes().all(hex) {
            return Err(invalid("sha256", "must be 64 lower-case hex digits"));
        }
        limits::map("properties", &c.properties)?;
        if self.knows(1) {
            let mut properties = c.properties.iter();
            properties.try_for_each(|(key, value)| limits::trait_demand("properties", key, value))?;
        }
        if self.knows(2) {
            let mut traits = c.properties.keys().filter_map(|key| key.strip_prefix(extra_specs::TRAIT));
            traits.try_for_each(|name| limits::trait_name("properties", name))?;
        }
        self.check_project(&self.actor.project)?;
        if !self.state.nodes.contains_key(&c.holder) {
            return Err(not_found(Kind::Node, c.holder));
        }
        if self.state.find_image(&self.actor.project, &c.name).is_some() {
            return Err(Reason::NameTaken { kind: Kind::Image, name: c.name.clone() });
        }
        if self.state.images.contains_key(&c.id) {
            return Err(invalid("id", "is taken"));
        }
        if self.state.images.len() >= limits::CATALOG_MAX {
            return Err(Reason::Limit { message: format!("at most {} images", limits::CATALOG_MAX) });
        }
        self.state.images.insert(
            c.id,
            Image {
                id: c.id,
                project: self.actor.project.clone(),
                name: c.name.clone(),
                kind: c.kind,
                size_bytes: c.size_bytes,
                sha256: c.sha256.clone(),
                properties: c.properties.clone(),
                holders: OrdSet::unit(c.holder),
                created_at: self.at,
                revision: self.revision,
            },
        );
        self.event(Kind::Image, c.id, &c.name, "created", "");
        Ok(Outcome::Image(c.id))
    }

    pub(super) fn report_image(&mut self, c: &ReportImage) -> Result<Outcome, Reason> {
        if !self.state.nodes.contains_key(&c.node) {
            return Err(not_found(Kind::Node, c.node));
        }
        let mut image =
            self.state.images.get(&c.image).cloned().ok_or_else(|| not_found(Kind::Image, c.image))?;
        let changed = if c.held {
            image.holders.insert(c.node).is_none()
        } else {
            image.holders.remove(&c.node).is_some()
        };
        if changed {
            image.revision = self.revision;
            let what = if c.held { "replicated" } else { "dropped" };
            self.event(Kind::Image, c.image, &image.name, what, format!("on node {}", c.node));
            self.state.images.insert(c.image, image);
        }
        Ok(Outcome::Image(c.image))
    }

    pub(super) fn delete_image(&mut self, c: &DeleteImage) -> Result<Outcome, Reason> {
        let image = self.state.images.get(&c.id).ok_or_else(|| not_found(Kind::Image, c.id))?;
        check_expected(c.expected, image.revision)?;
        let name = image.name.clone();
        let policy = self.knows(1) && self.state.scheduler.isolates_image(c.id, &name);
        let vms = self.state.users_of_image(c.id).map(|vm| vm.name.as_str());
        let by =
            some_names(policy.then_some("the scheduler's policy (isolated images)").into_iter().chain(vms));
        if !by.is_empty() {
            return Err(Reason::InUse { kind: Kind::Image, name, by });
        }
        self.state.images.remove(&c.id);
        self.event(Kind::Image, c.id, &name, "deleted", "");
        Ok(Outcome::Image(c.id))
    }
}
