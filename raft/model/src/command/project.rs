//! Commands about projects.

use serde::{Deserialize, Serialize};

use crate::id::{ProjectId, Revision};

/// A new project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateProject {
    pub id: ProjectId,
    pub name: String,
    #[serde(default)]
    pub description: String,
}

/// Describes a project anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateProject {
    pub id: ProjectId,
    pub description: String,
    #[serde(default)]
    pub expected: Option<Revision>,
}

/// Removes a project; refused while anything belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteProject {
    pub id: ProjectId,
    #[serde(default)]
    pub expected: Option<Revision>,
}
