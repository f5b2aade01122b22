//! The cluster as a deterministic simulation: three nodes on a simulated clock, network and disk, driven by
//! the product's own decisions, and checked after every event. One thread, one heap of events, one source of
//! chance: a seed is a run, byte for byte.
//!
//! The product's code that runs here: the replicated model (`apply` on every replica), the controllers, the
//! leader's lease ledger, the node's lease holder, and the agent's plan. What is simulated: Raft (one log whose
//! entries a majority has; leaders, terms, lag, lost and inherited proposals), hosts, shims, VMMs and users.
//!
//! - [`run`]: one seed; [`Outcome`] what came of it;
//! - [`Bug`]: what can be broken on purpose, to see that it is found.

mod agent;
mod check;
mod client;
mod event;
mod faults;
mod figures;
mod host;
mod leader;
mod lease;
mod log;
mod network;
mod node;
mod operator;
mod shims;
mod sim;
mod start;
mod talk;

pub use figures::Figures;
pub use sim::{Bug, Options, Outcome, run};
