//! `holm cluster …`

pub mod status;
pub mod what_if;
