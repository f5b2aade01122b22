//! `holm flavor …` as typed.

use clap::{Args, Subcommand};

use super::value::key_value;

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Creates a flavor.
    Create(Create),
    /// Lists the flavors.
    List,
    /// Shows a flavor.
    Show(Target),
    /// Deletes a flavor; VMs made from it keep their sizes.
    Delete(Target),
}

#[derive(Debug, Args)]
pub struct Target {
    /// Name or id.
    pub flavor: String,
}

#[derive(Debug, Args)]
pub struct Create {
    /// 1 to 63 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Virtual CPUs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub vcpus: u32,
    /// Memory in MiB.
    #[arg(long = "memory", visible_alias = "memory-mib", value_name = "MIB")]
    pub memory_mib: u64,
    /// Root disk in GiB; 0 for guests that need none.
    #[arg(long = "disk", visible_alias = "disk-gib", value_name = "GIB", default_value_t = 0)]
    pub disk_gib: u64,
    /// An extra requirement, as in Nova; may be repeated.
    #[arg(long = "extra-spec", visible_alias = "property", value_name = "KEY=VALUE", value_parser = key_value)]
    pub extra_specs: Vec<(String, String)>,
}
