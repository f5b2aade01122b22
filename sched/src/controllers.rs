//! The controllers there are, one a file.

mod node_health;
mod placement;

pub use node_health::{DOWN_AFTER_MS, NodeHealth, UP_BELOW_MS};
pub use placement::{NO_HOST_MAX, Placement};

use crate::controller::Controller;

/// All of them, in the order a driver runs them.
pub fn all() -> Vec<Box<dyn Controller>> {
    vec![Box::new(NodeHealth), Box::new(Placement)]
}
