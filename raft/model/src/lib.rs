//! Everything a Holm cluster agrees on: the replicated [`State`], the [`Command`]s that change it and
//! the pure function [`apply`](fn@apply) that performs them. No clock, no randomness, no IO: two replicas that
//! apply the same entries hold the same bytes.

pub mod aggregate;
pub mod apply;
pub mod cluster_policy;
pub mod command;
pub mod condition;
pub mod decimal;
pub mod digest;
pub mod event;
pub mod extra_specs;
pub mod feasible;
pub mod flavor;
pub mod group;
pub mod id;
pub mod image;
pub mod invariant;
pub mod limits;
pub mod node;
pub mod nodes;
pub mod parts;
pub mod planted;
pub mod policy;
pub mod project;
pub mod quota;
pub mod reply;
pub mod resources;
pub mod room;
pub mod scheduling;
pub mod snapshot;
pub mod state;
pub mod version;
pub mod view;
pub mod vm;
pub mod volume;
pub mod window;

pub use apply::{Applied, apply};
pub use command::{Actor, Command, Entry, IdempotencyKey, Proposal};
pub use event::Event;
pub use id::{
    AggregateId, BootId, ClusterId, Epoch, FlavorId, GroupId, ImageId, Incarnation, NodeId, ProjectId,
    Revision, Timestamp, VmId, VolumeId,
};
pub use reply::{Kind, Outcome, Reason, Reply};
pub use resources::{Inventory, ResourceClass, Resources};
pub use state::State;
