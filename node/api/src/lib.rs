//! REST types of Holm, version 1, shared by the node and the CLI: one module a resource, the problem
//! body every failure has, and the names of Holm's headers. Plain data: no IO, no rules of the model.

pub mod cluster;
pub mod deleted;
pub mod event;
pub mod explain;
pub mod flavor;
pub mod header;
pub mod health;
pub mod image;
pub mod list;
pub mod node;
pub mod problem;
pub mod query;
pub mod time;
pub mod vm;

pub use cluster::{Checkpoint, Cluster, Member, Role};
pub use deleted::Deleted;
pub use event::{Event, EventKind};
pub use explain::{Explanation, HostVerdict, Verdict, Weight};
pub use flavor::{CreateFlavor, Flavor};
pub use health::Health;
pub use image::{Image, ImageKind};
pub use list::List;
pub use node::{Condition, Hypervisor, HypervisorKind, Inventory, Node, NodeRef, PatchNode};
pub use problem::{Code, Problem};
pub use query::{
    Consistency, CreateImageQuery, EventsQuery, ListQuery, LogQuery, ReadQuery, RemoveNodeQuery, VmListQuery,
};
pub use time::Timestamp;
pub use vm::{CreateVm, RebootVm, StopVm, Vm, VmStatus};
