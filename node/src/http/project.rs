//! Which project a request is about: the header `Holm-Project`, or `default`. Names are looked up within it, what is
//! created belongs to it, lists show it. Ids name records of any project.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use holm_api::{Code, header as holm};
use holm_model::project::DEFAULT;
use holm_model::{State as Model, limits};

use super::problem::{Failure, Result};

const HEADER: &str = "Holm-Project";

/// A project by name; whether there is one, the state tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project(String);

impl Default for Project {
    fn default() -> Self {
        Self(DEFAULT.to_owned())
    }
}

impl Project {
    /// From a request's headers.
    ///
    /// # Errors
    /// Names the header when what it holds cannot be a project's name.
    pub fn of(headers: &HeaderMap) -> Result<Self> {
        let bad = |why: String| Err(Failure::new(Code::InvalidHeader, why).field(HEADER));
        let mut given = headers.get_all(holm::PROJECT).iter();
        let (Some(value), None) = (given.next(), given.next()) else {
            return match headers.contains_key(holm::PROJECT) {
                true => bad(format!("`{HEADER}` is given more than once")),
                false => Ok(Self::default()),
            };
        };
        let Ok(name) = value.to_str() else { return bad(format!("`{HEADER}` is not text")) };
        match limits::name(HEADER, name) {
            Ok(()) => Ok(Self(name.to_owned())),
            Err(reason) => bad(format!("{reason}; it takes the name of a project")),
        }
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    /// Its name, when `state` has it.
    ///
    /// # Errors
    /// Names the header, and how the project would be made.
    pub fn known(&self, state: &Model) -> Result<&str> {
        if state.has_project(&self.0) {
            return Ok(&self.0);
        }
        let name = &self.0;
        Err(Failure::new(Code::InvalidHeader, format!("there is no project `{name}`"))
            .field(HEADER)
            .hint(format!("`holm project create {name}` makes it; `holm project list` shows what there is")))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Project {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        Self::of(&parts.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> std::result::Result<String, (Code, Option<String>)> {
        let name = holm::PROJECT.parse::<axum::http::HeaderName>().unwrap();
        let headers = values.iter().map(|value| (name.clone(), value.parse().unwrap())).collect();
        match Project::of(&headers) {
            Ok(project) => Ok(project.0),
            Err(failure) => Err((failure.code, failure.field)),
        }
    }

    #[test]
    fn a_request_is_about_default_unless_it_names_one_project() {
        let refused = Err((Code::InvalidHeader, Some(HEADER.to_owned())));
        assert_eq!(of(&[]), Ok("default".to_owned()));
        assert_eq!(of(&["shop"]), Ok("shop".to_owned()));
        for bad in [&["shop", "ship"][..], &[""], &["a b"], &["7"], &["x/y"], &["\u{e9}"]] {
            assert_eq!(of(bad), refused, "{bad:?}");
        }
        let long = "a".repeat(64);
        assert_eq!(of(&[&long]), refused);
    }

    #[test]
    fn an_unknown_project_is_refused_with_the_way_to_make_it() {
        let failure = Project("shop".to_owned()).known(&Model::default()).unwrap_err();
        assert_eq!(failure.field.as_deref(), Some(HEADER));
        assert!(failure.hint.is_some_and(|hint| hint.contains("holm project create shop")));
        assert_eq!(Project::default().known(&Model::default()).unwrap(), "default");
    }
}
