//! The shell round openraft: durable log, snapshots, peer service and the handle the rest of Holm uses.
//! See README.md for the invariants, and [`Handle`] for how to use it.

mod applied;
mod blocking;
mod core;
mod durable;
mod fatal;
#[cfg_attr(not(feature = "planted-faults"), doc(hidden))]
pub mod faults;
mod files;
#[cfg(test)]
mod golden;
mod guarded;
pub mod handle;
mod history;
pub mod identity;
pub mod join;
mod leadership;
pub mod leases;
mod member;
mod membership;
mod network;
mod peers;
mod propose;
mod reserve;
mod rounds;
mod rpc;
mod server;
#[cfg_attr(not(feature = "simulation"), doc(hidden))]
pub mod simulated;
pub mod snapshot;
mod stall;
mod stamps;
mod start;
pub mod state_machine;
mod status;
pub mod store;
mod transfer;
pub mod types;
mod wire;

pub use fatal::{EXIT_CODE, essential};
pub use handle::{Committed, Handle, ProposeError, Published, RaftStatus, ReadError};
pub use history::HistoryError;
pub use identity::Identity;
pub use join::{init_cluster, join_cluster};
pub use start::{Config, StartError, Timing, start};
pub use transfer::TransferError;
