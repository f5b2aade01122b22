//! `holm cluster candidates` as typed. What the values mean is the cluster's to say: they are sent as they are.

use clap::Args;

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("of").required(true)))]
pub struct Candidates {
    /// A VM of this flavor, by name or id.
    #[arg(long, group = "of")]
    pub flavor: Option<String>,
    /// A VM that asks for these amounts: `VCPU:2,MEMORY_MB:1024,CUSTOM_GPU:1`. The VMM's own memory comes on top.
    #[arg(long, value_name = "CLASS:N,…", group = "of")]
    pub resources: Option<String>,
    /// Traits: `A,!B` for nodes with A and without B, `in:A,B` for nodes with one of these; may be repeated, and each
    /// must hold.
    #[arg(long, value_name = "TRAITS")]
    pub required: Vec<String>,
    /// Nodes in an aggregate or a zone: `A`, `in:A,B` in any of these, `!A` or `!in:A,B` in none; may be repeated, and
    /// each must hold.
    #[arg(long, value_name = "AGGREGATE")]
    pub member_of: Vec<String>,
    /// At most so many candidates, and so many refusals in words; 100 if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: Option<u32>,
}
