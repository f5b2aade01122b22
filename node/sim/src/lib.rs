//! Simulation for development: nothing of this is shipped.
//!
//! - [`fencing`]: the protocol that keeps a VM from running twice, as a small model with every rule on a
//!   switch, and two ways to attack it;
//! - [`cluster`]: the cluster on a simulated clock, network and hosts, driven by the product's own decisions;
//! - [`rng`]: the one source of chance, so that a seed means the same for ever.

pub mod cluster;
pub mod fencing;
pub mod rng;
