//! The shell round openraft: durable log, snapshots, peer service and the handle the rest of Holm uses.

pub mod handle;
