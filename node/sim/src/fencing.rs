//! The fencing protocol as a model to attack: two nodes that may both lead, one VM, time in ticks, and an
//! adversary that lags replicas, pauses, crashes, loses, delays and repeats at will. Every rule of
//! `node/FENCING.md` is a switch; with one left out the search finds the interleaving it prevents, with all
//! of them it finds none.
//!
//! - [`Rule`], [`Rules`]: the switches;
//! - [`World`]: one state of everything; [`Action`]: one step of the adversary;
//! - [`interleaving`]: what people think of, a rule each; [`walk`]: many random walks, and the shrinking of what they find;
//! - [`search`]: breadth first through every state within bounds;
//! - [`leader_death`]: what a leader's death costs, by enumeration of times.

mod action;
pub mod interleaving;
pub mod leader_death;
mod leader_steps;
mod node;
mod node_steps;
pub mod piece;
mod replicated;
mod routine;
mod rule;
pub mod search;
mod shim_steps;
mod time;
pub mod walk;
mod world;

pub use action::Action;
pub use replicated::Availability;
pub use rule::{Rule, Rules};
pub use world::{Disabled, Step, Violation, World};
