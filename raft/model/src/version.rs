//! The cluster version: what entries and snapshots may contain. A binary refuses, by stopping with a
//! message, what it does not know; it never skips it.

/// The version this binary writes and understands.
pub const CLUSTER_VERSION: u32 = 1;
