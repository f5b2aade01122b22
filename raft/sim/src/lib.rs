//! The product's own Raft shell (store, state machine, snapshots, peers, handle) under openraft, on simulated hosts: one
//! thread, simulated time, simulated networks and disks, and one source of chance, so that a seed is a run. See README.md.

mod below;
mod check;
mod client;
mod cluster;
mod disk;
mod faults;
mod host;
mod net;
mod rng;
mod run;
mod trace;

pub use run::{Plan, Report, run};
