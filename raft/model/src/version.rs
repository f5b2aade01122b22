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
/// something else, than one that landed takes the next number, and asks [`Cx::knows`](crate::apply) for it. A binary stops
/// at an entry of later rules than its own.
///
/// | rules | what they brought |
/// |---|---|
/// | 1 | Extra specs, properties and metadata that mean something in Nova and nothing here are refused; what is isolated exists, and stays while it is. Groups and aggregates in use keep their names, a zone in use stays. Claims are compared without what the VMM needs beside them. One to be started again waits as if it were new, one that lost its node waits on when it cannot be built. A clock that moves takes the ages of VMs with it. |
/// | 2 | N+1 is judged for pinned VMs, evacuations and moves. A build that failed on [`MAX_BUILD_HOSTS`](crate::vm::MAX_BUILD_HOSTS) nodes pauses. Overrides of an inventory change field by field, of what the node has. Names of traits and metadata are checked; a taint's key goes once with an effect. Of an isolation only what is new is checked. A move that cannot arrive holds up no other. A clock that moves takes the last change of VMs with it. |
pub const RULES: u32 = 2;
