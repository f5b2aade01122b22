//! The controllers there are, one a file.

pub mod drain;
pub mod fencing;
mod node_health;
pub mod overdue;
mod placement;
pub mod restart;

pub use drain::Drain;
pub use fencing::Fencing;
pub use node_health::{DOWN_AFTER_MS, NodeHealth, UP_BELOW_MS};
pub use overdue::Overdue;
pub use placement::{NO_HOST_MAX, Placement, RETRY_DOUBLINGS, RETRY_PAUSE_MS, TOLD_MAX};
pub use restart::Restart;

use crate::controller::Controller;

/// All of them, in the order a driver runs them.
pub fn all() -> Vec<Box<dyn Controller>> {
    vec![
        Box::new(NodeHealth),
        Box::new(Fencing),
        Box::new(Restart),
        Box::new(Overdue),
        Box::new(Placement),
        Box::new(Drain),
    ]
}
