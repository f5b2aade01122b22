//! `holm scheduler …` as typed.

use clap::{Args, Subcommand, ValueEnum};

use super::value::decimal;

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Shows the filters and weighers in use, those that are always asked, and those that could be in use.
    Show,
    /// Changes the policy; what is not named stays. It holds from the next decision on.
    Set(Set),
    /// Goes back to the default policy.
    Reset,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
pub struct Set {
    /// All filters to ask, in this order, separated by commas.
    #[arg(long, value_name = "FILTERS", value_delimiter = ',', group = "change")]
    pub filters: Option<Vec<String>>,
    /// Ask this filter too; may be repeated.
    #[arg(long, value_name = "FILTER", group = "change", conflicts_with = "filters")]
    pub enable: Vec<String>,
    /// Do not ask this filter any longer; may be repeated. Those that every placement is checked by stay.
    #[arg(long, value_name = "FILTER", group = "change", conflicts_with = "filters")]
    pub disable: Vec<String>,
    /// How much a weigher counts: `Ram=2`, `Ram=-1` to turn its preference round, `Ram=0` to leave it out;
    /// may be repeated.
    #[arg(long = "weigher", value_name = "WEIGHER=MULTIPLIER", value_parser = multiplier, group = "change")]
    pub weighers: Vec<(String, f64)>,
    /// For the filter NumInstances.
    #[arg(long, value_name = "N", group = "change")]
    pub max_instances_per_host: Option<u32>,
    /// For the filter IoOps.
    #[arg(long, value_name = "N", group = "change")]
    pub max_io_ops_per_host: Option<u32>,
    /// For the filter IsolatedHosts: all images that run on the isolated nodes only, separated by commas; by id, name,
    /// or PROJECT/NAME.
    #[arg(long, value_name = "IMAGES", value_delimiter = ',', group = "change")]
    pub isolated_images: Option<Vec<String>>,
    /// For the filter IsolatedHosts: all nodes that run isolated images only, separated by commas.
    #[arg(long, value_name = "NODES", value_delimiter = ',', group = "change")]
    pub isolated_nodes: Option<Vec<String>>,
    /// For the filter IsolatedHosts: whether other images keep off the isolated nodes.
    #[arg(long, value_enum, group = "change")]
    pub restrict_isolated_hosts_to_isolated_images: Option<Switch>,
    /// Keep a host for a VM that has waited so many seconds; 0 keeps none.
    #[arg(long, value_name = "SECONDS", group = "change")]
    pub reserve_after_s: Option<u32>,
    /// A VM that fits nowhere waits so many seconds before it goes to ERROR.
    #[arg(long, value_name = "SECONDS", group = "change")]
    pub build_timeout: Option<u32>,
    /// What becomes of a new failover VM with which the cluster could no longer lose any one node.
    #[arg(long, value_enum, group = "change")]
    pub n_plus_one: Option<NPlusOne>,
    /// Evict VMs that allow it for others of greater priority.
    #[arg(long, value_enum, group = "change")]
    pub preemption: Option<Switch>,
}

/// Whether the cluster is to hold its failover VMs with any one node gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NPlusOne {
    /// Nobody asks.
    Off,
    /// It is created, with a warning.
    Warn,
    /// It is refused.
    Refuse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

fn multiplier(text: &str) -> Result<(String, f64), String> {
    let (name, number) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| format!("`{text}` is not WEIGHER=MULTIPLIER, such as `Ram=1.5`"))?;
    Ok((name.to_owned(), decimal(number)?))
}
