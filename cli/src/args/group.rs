//! `holm group …` as typed.

use clap::{Args, Subcommand, ValueEnum};

use super::project::ListOfProject;

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Creates a server group; VMs join it when they are created (`holm vm create --group`).
    Create(Create),
    /// Lists the server groups.
    List(ListOfProject),
    /// Shows a server group and where its members are.
    Show(Target),
    /// Changes a server group's name or its number of members a host.
    Set(Set),
    /// Deletes a server group that has no members.
    Delete(Target),
}

#[derive(Debug, Args)]
pub struct Target {
    /// Name or id.
    pub group: String,
}

#[derive(Debug, Args)]
pub struct Create {
    /// 1 to 63 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// What is done with the members.
    #[arg(long, value_enum)]
    pub policy: Policy,
    /// With anti-affinity: so many members on one host, instead of 1.
    #[arg(long, value_name = "N")]
    pub max_per_host: Option<u32>,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
pub struct Set {
    /// Name or id.
    pub group: String,
    /// A new name.
    #[arg(long, group = "change")]
    pub name: Option<String>,
    /// With anti-affinity: so many members on one host. A lower number moves nobody.
    #[arg(long, value_name = "N", group = "change")]
    pub max_per_host: Option<u32>,
}

/// What is done with the members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// All on one host.
    Affinity,
    /// No more than a number of them on one host.
    AntiAffinity,
    /// Together where possible.
    SoftAffinity,
    /// Apart where possible.
    SoftAntiAffinity,
}
