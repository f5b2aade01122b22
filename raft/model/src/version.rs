//! The cluster version: what entries and snapshots may contain, and what apply makes of them. A binary refuses, by
//! stopping with a message, what is of a later version, also where it could be read: a field that is skipped, or a rule
//! that is not known, would make it disagree for ever.
//!
//! It counts from the first release on; until then all nodes of a cluster run one build. README.md says what its next
//! number takes.

/// The version this binary writes and understands.
pub const CLUSTER_VERSION: u32 = 1;
