//! Flavors.

use super::{Cx, check_expected, invalid, not_found};
use crate::command::{CreateFlavor, DeleteFlavor};
use crate::flavor::Flavor;
use crate::limits;
use crate::reply::{Kind, Outcome, Reason};

/// Most extra specs of a flavor.
const EXTRA_SPECS_MAX: usize = 64;

impl Cx<'_> {
    pub(super) fn create_flavor(&mut self, c: &CreateFlavor) -> Result<Outcome, Reason> {
        limits::name("name", &c.name)?;
        limits::size(&c.size)?;
        if c.extra_specs.len() > EXTRA_SPECS_MAX {
            return Err(invalid("extra_specs", format!("at most {EXTRA_SPECS_MAX} are allowed")));
        }
        for (key, value) in &c.extra_specs {
            limits::text("extra_specs", key, 255)?;
            limits::text("extra_specs", value, 255)?;
        }
        if self.state.flavors.values().any(|flavor| flavor.name == c.name) {
            return Err(Reason::NameTaken { kind: Kind::Flavor, name: c.name.clone() });
        }
        if self.state.flavors.contains_key(&c.id) {
            return Err(invalid("id", "is taken"));
        }
        if self.state.flavors.len() >= limits::CATALOG_MAX {
            return Err(Reason::Limit { message: format!("at most {} flavors", limits::CATALOG_MAX) });
        }
        self.state.flavors.insert(
            c.id,
            Flavor {
                id: c.id,
                name: c.name.clone(),
                size: c.size,
                extra_specs: c.extra_specs.clone(),
                created_at: self.at,
                revision: self.revision,
            },
        );
        self.event(Kind::Flavor, c.id, &c.name, "created", "");
        Ok(Outcome::Flavor(c.id))
    }

    pub(super) fn delete_flavor(&mut self, c: &DeleteFlavor) -> Result<Outcome, Reason> {
        let flavor = self.state.flavors.get(&c.id).ok_or_else(|| not_found(Kind::Flavor, c.id))?;
        check_expected(c.expected, flavor.revision)?;
        let name = flavor.name.clone();
        self.state.flavors.remove(&c.id);
        self.event(Kind::Flavor, c.id, &name, "deleted", "");
        Ok(Outcome::Flavor(c.id))
    }
}
