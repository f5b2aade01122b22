//! Flavors.

use super::{Cx, check_expected, invalid, not_found};
use crate::command::{CreateFlavor, DeleteFlavor};
use crate::extra_specs;
use crate::feasible::RESOURCES;
use crate::flavor::Flavor;
use crate::limits::{self, AMOUNT_MAX};
use crate::parts::Wanted;
use crate::reply::{Kind, Outcome, Reason};
use crate::resources::ResourceClass;

/// Those with a meaning here must make sense; an operator's own are for the filters to compare.
fn check_extra_spec(key: &str, value: &str) -> Result<(), Reason> {
    let wrong = |message: String| Err(invalid("extra_specs", format!("{key}={value}: {message}")));
    if let Some(class) = key.strip_prefix(RESOURCES) {
        let class = ResourceClass::from(class.to_owned());
        limits::resource_class("extra_specs", &class)?;
        return match value.parse::<u64>() {
            Ok(0) if class == ResourceClass::MemoryMb => wrong("a guest has memory".to_owned()),
            Ok(amount) if amount <= AMOUNT_MAX => Ok(()),
            _ => wrong(format!("must be a whole number up to {AMOUNT_MAX}")),
        };
    }
    limits::trait_demand("extra_specs", key, value)
}

/// Nothing is asked for that would not be given, or cannot be read.
fn check_what_is_asked(c: &CreateFlavor) -> Result<(), Reason> {
    if let Some((key, value)) = c.extra_specs.iter().find(|(key, _)| is_of_a_group(key)) {
        let help = "request groups are not supported; `resources:CLASS=N` and `trait:NAME=required` are";
        return Err(invalid("extra_specs", format!("{key}={value}: {help}")));
    }
    Wanted::of_flavor(&c.extra_specs, c.size.vcpus)
        .map(|_| ())
        .map_err(|refusal| invalid("extra_specs", refusal))
}

/// Placement's granular request groups (`resources1:…`, `trait_GPU:…`, `group_policy`), which would ask for nothing here.
fn is_of_a_group(key: &str) -> bool {
    let scope = key.split_once(':').map_or("", |(scope, _)| scope);
    key == "group_policy" || ["resources", "trait"].iter().any(|of| scope.starts_with(of) && scope != *of)
}

impl Cx<'_> {
    pub(super) fn create_flavor(&mut self, c: &CreateFlavor) -> Result<Outcome, Reason> {
        limits::name("name", &c.name)?;
        limits::size(&c.size)?;
        limits::map("extra_specs", &c.extra_specs)?;
        c.extra_specs.iter().try_for_each(|(key, value)| check_extra_spec(key, value))?;
        if self.knows(1) {
            check_what_is_asked(c)?;
        }
        if self.knows(2) {
            c.extra_specs.iter().try_for_each(|(key, value)| extra_specs::check(key, value))?;
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
