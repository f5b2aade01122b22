//! `holm cluster …`

pub mod candidates;
pub mod freeze;
pub mod policy;
pub mod rebalance;
pub mod status;
pub mod what_if;
