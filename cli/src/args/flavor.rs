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
    /// Says which nodes would take a VM of a flavor now, how many, and why the others would not (Placement's
    /// allocation candidates; `holm cluster candidates` asks more).
    Candidates(Target),
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
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=254))]
    pub vcpus: u32,
    /// Memory in MiB.
    #[arg(long, visible_alias = "memory", value_name = "MIB", allow_negative_numbers = true)]
    pub memory_mib: u64,
    /// Root disk in GiB; 0 for guests that need none.
    #[arg(
        long,
        visible_alias = "disk",
        value_name = "GIB",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub disk_gib: u64,
    /// An extra requirement, as in Nova; may be repeated.
    #[arg(long = "extra-spec", visible_alias = "property", value_name = "KEY=VALUE", value_parser = key_value)]
    pub extra_specs: Vec<(String, String)>,
}
