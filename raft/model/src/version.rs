//! The cluster version: what entries and snapshots may contain, and what apply makes of them. A binary refuses, by
//! stopping with a message, what is of a later version, also where it could be read: a field that is skipped, or a rule
//! that is not known, would make it disagree for ever.
//!
//! It counts from the first release on; until then all nodes of a cluster run one build. README.md says what its next
//! number takes.

/// The version this binary writes and understands.
pub const CLUSTER_VERSION: u32 = 1;

/// The rules by which apply judges what this binary accepts as leader. An entry names them and is judged by them for ever:
/// a replica that replays it from its log ends where one is that has it in its snapshot. A rule that refuses more, or does
/// something else, than one that landed takes the next number, and asks [`Cx::knows`](crate::apply) for it.
pub const RULES: u32 = 2;
