//! Real `holmd` processes on loopback, and a client that speaks REST to one of them. Everything started
//! here ends here, whatever happens: processes are found through the folder they work in, never by name.

pub mod address;
pub mod binary;
pub mod client;
pub mod cluster;
pub mod daemon;
pub mod disk;
pub mod events;
pub mod leftovers;
pub mod members;
pub mod netns;
pub mod place;
pub mod power;
pub mod process;
pub mod real;
pub mod scratch;
pub mod vms;
pub mod wait;
pub mod witness;

pub use client::Client;
pub use cluster::{Cluster, Setup};
pub use daemon::{Daemon, Hypervisor};
pub use process::Process;
pub use scratch::Scratch;
pub use wait::wait_for;
