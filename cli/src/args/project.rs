//! `holm project …` as typed.

use clap::{Args, Subcommand};

/// Whose things are to be listed, for every `list` of things that belong to projects.
#[derive(Debug, Args)]
pub struct ListOfProject {
    /// Those of every project.
    #[arg(long)]
    pub all_projects: bool,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Creates a project; `--project NAME` or HOLM_PROJECT then chooses it.
    Create(Create),
    /// Lists the projects.
    List,
    /// Shows a project and how much belongs to it.
    Show(Target),
    /// Describes a project anew. Its name stays.
    Set(Set),
    /// Deletes a project to which nothing belongs: no VM, server group, image, volume or quota.
    Delete(Target),
}

#[derive(Debug, Args)]
pub struct Target {
    /// Name or id.
    pub name: String,
}

#[derive(Debug, Args)]
pub struct Create {
    /// 1 to 63 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// What it is for.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub description: String,
}

#[derive(Debug, Args)]
pub struct Set {
    /// Name or id.
    pub name: String,
    /// What it is for; empty removes what was said.
    #[arg(long, value_name = "TEXT")]
    pub description: String,
}
