//! `holm cluster …`

pub mod status;
