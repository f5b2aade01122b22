//! Faults, one kind a file. A nemesis waits for the workload's progress instead of for time to pass, verifies
//! that each fault took hold, and heals it before the next.

pub mod kill;
pub mod leader_restart;
mod progress;

pub use progress::Progress;
