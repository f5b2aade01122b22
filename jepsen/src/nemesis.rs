//! Faults, one kind a file. A nemesis waits for the workload's progress instead of for time to pass, verifies
//! that each fault took hold, and heals it before the next.

mod choice;
mod host;
pub mod kill;
pub mod leader_restart;
mod observed;
mod progress;
pub mod trouble;
mod ways;

pub use choice::{Extent, Nemesis};
pub use observed::Observed;
pub use progress::Progress;

/// A fault that cannot be shown to have taken hold. The harness' own failure: nothing is said of the product.
#[derive(Debug, thiserror::Error)]
#[error("the fault is not as wanted: {0}")]
pub struct Unverified(pub String);
