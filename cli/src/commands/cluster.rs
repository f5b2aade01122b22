//! `holm cluster …`

pub mod freeze;
pub mod policy;
pub mod status;
pub mod what_if;
