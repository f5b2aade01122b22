//! `holm aggregate …` as typed.

use clap::{Args, Subcommand};

use super::value::{InventoryOptions, key_change, key_value};

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Creates an aggregate.
    Create(Create),
    /// Lists the aggregates.
    List,
    /// Shows an aggregate.
    Show(Target),
    /// Changes an aggregate's name, zone and metadata.
    Set(Set),
    /// Says what the nodes of an aggregate offer of a resource class, whatever they report.
    SetInventory(SetInventory),
    /// Adds nodes to an aggregate.
    AddNode(Nodes),
    /// Takes nodes out of an aggregate.
    RemoveNode(Nodes),
    /// Deletes an aggregate that has no nodes.
    Delete(Target),
}

#[derive(Debug, Args)]
pub struct Target {
    /// Name or id.
    pub aggregate: String,
}

#[derive(Debug, Args)]
pub struct Create {
    /// 1 to 63 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// A node in it, by name or id; may be repeated.
    #[arg(long = "node", value_name = "NODE")]
    pub nodes: Vec<String>,
    /// Makes it an availability zone of this name.
    #[arg(long, visible_alias = "az")]
    pub zone: Option<String>,
    /// Metadata that filters read; may be repeated.
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = key_value)]
    pub properties: Vec<(String, String)>,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
pub struct Set {
    /// Name or id.
    pub aggregate: String,
    /// A new name.
    #[arg(long, group = "change")]
    pub name: Option<String>,
    /// Makes it an availability zone of this name.
    #[arg(long, visible_alias = "az", group = "change")]
    pub zone: Option<String>,
    /// Metadata that filters read: `KEY=VALUE` sets, `KEY-` removes; may be repeated.
    #[arg(long = "property", value_name = "CHANGE", value_parser = key_change, group = "change")]
    #[arg(allow_hyphen_values = false)]
    pub properties: Vec<(String, Option<String>)>,
}

#[derive(Debug, Args)]
pub struct SetInventory {
    /// Name or id.
    pub aggregate: String,
    #[command(flatten)]
    pub inventory: InventoryOptions,
}

#[derive(Debug, Args)]
pub struct Nodes {
    /// Name or id.
    pub aggregate: String,
    /// Names or ids.
    #[arg(required = true, value_name = "NODE")]
    pub nodes: Vec<String>,
}
