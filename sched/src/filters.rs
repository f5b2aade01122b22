//! The filters there are, one a file. [`crate::Policy`] lists those in use, in order.

mod capacity;
mod compute_status;
mod excluded;
mod requested_node;

pub use capacity::Capacity;
pub use compute_status::ComputeStatus;
pub use excluded::Excluded;
pub use requested_node::RequestedNode;
